/**
 * What it is: tests of reading key material. The pair was made for this test, by openssl req -x509
 * -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj /CN=kvgroup-test
 * Owns: a temporary folder.
 * Refuses: nothing.
 * Does not do: listen.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readTlsFiles } from "../../../src/runtime/dist/index.js";

const CERT = `-----BEGIN CERTIFICATE-----
MIIBojCCAUegAwIBAgIUV3nHJXLWtNXRoc4mAVS6213Iq7MwCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMa3Zncm91cC10ZXN0MCAXDTI2MTEzMDA3MDkzOVoYDzIxMjYx
MTA2MDcwOTM5WjAXMRUwEwYDVQQDDAxrdmdyb3VwLXRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAASyfZCsokNQJfz8CUZUwH37uI21P8mF+gRNUPPLXzMrWII9
TZlwlK18W70EFmqHvtQ7Kv54+8OJ+41xY4wj/UGFo28wbTAdBgNVHQ4EFgQUrq9e
YMOaXe7X0ZXKPIPr8z3R07AwHwYDVR0jBBgwFoAUrq9eYMOaXe7X0ZXKPIPr8z3R
07AwDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3Qw
CgYIKoZIzj0EAwIDSQAwRgIhAM19XHRHeMW63CEAnUZD8Mc/mFXGEM7rcpUVNxm5
pjObAiEApiOYXlb5f8YNYrtd8DH33XzPjMc6rPidaD+veBRjuqo=
-----END CERTIFICATE-----
`;
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQge5mrPxgzb744JWhz
j4Q6oT9MWGgGZjmj27TMjSdukNehRANCAASyfZCsokNQJfz8CUZUwH37uI21P8mF
+gRNUPPLXzMrWII9TZlwlK18W70EFmqHvtQ7Kv54+8OJ+41xY4wj/UGF
-----END PRIVATE KEY-----
`;
const OTHER_KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglzSQhnDMawcswBq6
sD98f1kis5peXM15pwfVhWw6XnWhRANCAAT7Gxovn7sFMAnOHk0zKJ+kDtYC+fQM
7EdnCXVqdgYUXOHVykqvxMYNr5eVrC1q/kdjzR5Q0xzZ7A0J9PKjL3Yq
-----END PRIVATE KEY-----
`;

let folder = "";
const at = (name: string): string => join(folder, name);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "kvgroup-tls-"));
  writeFileSync(at("cert.pem"), CERT);
  writeFileSync(at("key.pem"), KEY);
  writeFileSync(at("other.pem"), OTHER_KEY);
  writeFileSync(at("garbage.pem"), "777 this is no PEM");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The problem of a refused set of files. */
function problem(cert: string | undefined, key: string | undefined, ca?: string): string {
  const result = readTlsFiles({ cert, key, ca });
  return result.ok ? "" : result.problem;
}

describe("readTlsFiles", () => {
  test("a pair and an authority give their texts", () => {
    const result = readTlsFiles({ cert: at("cert.pem"), key: at("key.pem"), ca: at("cert.pem") });
    expect(result).toEqual({ ok: true, material: { cert: CERT, key: KEY, ca: CERT } });
  });

  test("an authority alone is enough for a client, and no path at all is no failure", () => {
    const none = { cert: undefined, key: undefined, ca: undefined };
    expect(readTlsFiles(none)).toEqual({ ok: true, material: none });
    expect(readTlsFiles({ ...none, ca: at("cert.pem") })).toMatchObject({ ok: true });
  });

  test("half a pair is refused by the half that is missing", () => {
    expect(problem(at("cert.pem"), undefined)).toBe("the key is missing");
    expect(problem(undefined, at("key.pem"))).toBe("the certificate is missing");
  });

  test("an unreadable file is refused with its path and the cause", () => {
    const result = readTlsFiles({ cert: at("none.pem"), key: at("key.pem"), ca: undefined });
    expect(result).toMatchObject({
      ok: false,
      problem: `cannot read ${at("none.pem")}`,
      cause: { code: "ENOENT" },
    });
  });

  test("a foreign key, and garbage in any place, is refused without its contents", () => {
    const pem = (name: string) => at(`${name}.pem`);
    for (const found of [
      problem(pem("cert"), pem("other")),
      problem(pem("garbage"), pem("key")),
      problem(pem("cert"), pem("garbage")),
      problem(pem("cert"), pem("key"), pem("garbage")),
      problem(undefined, undefined, pem("key")),
    ]) {
      expect(found).toMatch(/^not a usable key and certificate/);
      expect(found).not.toMatch(/777|BEGIN/);
    }
  });
});
