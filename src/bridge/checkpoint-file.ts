/**
 * What it is: the file that holds one rank's checkpoint, in a directory that outlives the process.
 * Owns: its name, the temporary one beside it, and their removal.
 * Refuses: to read what is no plain file, or larger than `LIMITS.checkpointBytes`; to leave half of a file under the
 * final name.
 * Does not do: know what a checkpoint contains, or when it is due.
 */
import { constants } from "node:fs";
import { type FileHandle, mkdtemp, open, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type DpRank, KvEventsError, LIMITS } from "@kv-group-bridge/protocol";
import { systemCode, withSystemCode } from "@kv-group-bridge/runtime";

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Without O_NONBLOCK the open of a FIFO would wait for a writer. */
const OLD_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** Only the bridge's own user: it holds hash states. */
const MODE = 0o600;

/** One rank's file. Every method fails with `checkpoint_failed` and nothing else of its own. */
export class CheckpointFile {
  private readonly directory: string;
  private readonly name: string;
  private readonly maxBytes: number;

  /** `directory` must exist. Opens nothing. */
  constructor(directory: string, dpRank: DpRank, maxBytes = LIMITS.checkpointBytes.value) {
    this.directory = directory;
    this.name = `rank-${dpRank}.checkpoint`;
    this.maxBytes = maxBytes;
  }

  /** Where it is. */
  get path(): string {
    return join(this.directory, this.name);
  }

  /** The whole file; undefined = there is none. Removes what an interrupted `write` left: call it before any. */
  async read(): Promise<Uint8Array | undefined> {
    await attempt("cannot be prepared", () => this.removeLeftovers());
    const file = await this.openOld();
    if (file === undefined) return undefined;
    try {
      return await this.readWhole(file);
    } finally {
      await attempt("cannot be closed", () => file.close());
    }
  }

  /**
   * Replaces the file by the pieces, all or nothing; gives the bytes written. When it fails, or `pieces` does (its
   * error is passed on), the old file is untouched and nothing else is left.
   */
  async write(pieces: AsyncIterable<Uint8Array>): Promise<number> {
    const folder = await attempt("cannot be begun", () =>
      mkdtemp(join(this.directory, this.temporaryPrefix)),
    );
    try {
      const path = join(folder, this.name);
      const bytes = await this.fill(path, pieces);
      await attempt("cannot be put in place", () => rename(path, this.path));
      await attempt("cannot be made durable", () => syncDirectory(this.directory));
      return bytes;
    } finally {
      // What cannot be removed now is removed before the next read.
      await rm(folder, { recursive: true, force: true }).catch(() => undefined);
    }
  }

  private get temporaryPrefix(): string {
    return `${this.name}.writing-`;
  }

  private async fill(path: string, pieces: AsyncIterable<Uint8Array>): Promise<number> {
    const file = await attempt("cannot be begun", () => open(path, NEW_FILE, MODE));
    try {
      let bytes = 0;
      for await (const piece of pieces) {
        bytes += piece.length;
        if (bytes > this.maxBytes) throw failed("would be larger than checkpointBytes");
        await attempt("cannot be written", () => file.writeFile(piece));
      }
      await attempt("cannot be made durable", () => file.sync());
      return bytes;
    } finally {
      await attempt("cannot be closed", () => file.close());
    }
  }

  private async openOld(): Promise<FileHandle | undefined> {
    try {
      return await open(this.path, OLD_FILE);
    } catch (cause) {
      if (systemCode(cause) === "ENOENT") return undefined;
      throw failed(
        systemCode(cause) === "ELOOP" ? "is a symbolic link" : "cannot be opened",
        cause,
      );
    }
  }

  private async readWhole(file: FileHandle): Promise<Uint8Array> {
    const state = await attempt("cannot be read", () => file.stat());
    if (!state.isFile()) throw failed("is no plain file");
    if (state.size > this.maxBytes) throw failed(`has ${state.size} bytes, more than allowed`);
    const bytes = new Uint8Array(state.size);
    let at = 0;
    while (at < bytes.length) {
      const { bytesRead } = await attempt("cannot be read", () =>
        file.read(bytes, at, bytes.length - at, at),
      );
      // It shrank meanwhile: what is there fails its checksum.
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return bytes.subarray(0, at);
  }

  private async removeLeftovers(): Promise<void> {
    for (const name of await readdir(this.directory)) {
      if (!name.startsWith(this.temporaryPrefix)) continue;
      await rm(join(this.directory, name), { recursive: true, force: true });
    }
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** What the system refuses becomes ours; `what` goes on after "the checkpoint". */
async function attempt<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw failed(what, cause);
  }
}

function failed(what: string, cause?: unknown): KvEventsError {
  const message = withSystemCode(`the checkpoint ${what}`, cause);
  return new KvEventsError("checkpoint_failed", message, { cause });
}
