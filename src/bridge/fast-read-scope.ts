/**
 * What it is: the small fields that stores and removals share, straight from the bytes: medium, locality, ownership, group.
 * Owns: nothing.
 * Refuses: by giving up.
 * Does not do: tell absent from nil; both mean the same in these fields.
 */
import { type GroupId, parseGroupId } from "@kv-group-bridge/protocol";
import type { FastCursor } from "./fast-read-cursor.ts";
import { FIELD } from "./fast-read-names.ts";
import { upperCase } from "./metadata.ts";

/** One an event. */
export class FastScope {
  medium = "GPU";
  locality = "";
  ownership = "";
  groupId: GroupId | undefined = undefined;

  /** Reads a field's value; gives up at a field that is none of these. */
  read(cursor: FastCursor, field: number): void {
    switch (field) {
      case FIELD.medium:
        if (!cursor.takeNil()) this.medium = mediumOf(cursor.name());
        return;
      case FIELD.locality:
        if (!cursor.takeNil()) this.locality = cursor.name();
        return;
      case FIELD.ownership:
        if (!cursor.takeNil()) this.ownership = cursor.name();
        return;
      case FIELD.group_idx:
        if (!cursor.takeNil()) this.groupId = parseGroupId(cursor.uint32());
        return;
      default:
        cursor.giveUp();
    }
  }
}

function mediumOf(name: string): string {
  return name === "GPU" ? name : upperCase(name);
}
