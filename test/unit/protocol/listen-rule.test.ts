/**
 * What it is: tests of the rule of what may be listened on.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: listen.
 */
import { describe, expect, test } from "vitest";
import { checkListener, isLoopback } from "../../../src/protocol/dist/index.js";

const LOOPBACK = [
  "127.0.0.1",
  "127.255.0.9",
  "::1",
  "0:0:0:0:0:0:0:1",
  "::ffff:127.0.0.1",
  "localhost",
  "LocalHost",
];
const OTHERS = [
  "0.0.0.0",
  "10.0.0.1",
  "::",
  "::2",
  "1::1",
  "::ffff:10.0.0.1",
  "fe80::1",
  "bridge",
  "",
  "*",
  "127.example.org",
  "localhost.example.org",
  "x127.0.0.1",
  ":1",
  "0:1",
  "::1%eth0",
];

test.each(LOOPBACK)("%s is loopback", (host) => expect(isLoopback(host)).toBe(true));
test.each(OTHERS)("'%s' is not", (host) => expect(isLoopback(host)).toBe(false));

describe("checkListener", () => {
  const open = { name: "listen", host: "0.0.0.0", hasTls: false, isInsecureAllowed: false };

  test("cleartext that others reach is refused; the message names host and consent", () => {
    expect(() => checkListener(open)).toThrow(
      expect.objectContaining({
        code: "listen_insecure",
        message: expect.stringMatching(/listen\.host 0\.0\.0\.0.*listen\.insecure/),
      }),
    );
  });

  test("loopback, TLS or consent is enough, each alone", () => {
    checkListener({ ...open, host: "::1" });
    checkListener({ ...open, hasTls: true });
    checkListener({ ...open, isInsecureAllowed: true });
  });
});
