import { describe, expect, test } from "vitest";
import { repairAuthority } from "../../../src/runtime/dist/index.js";

describe("what is no authority is replaced, what is one stays", () => {
  test.each(["worker-a.example", "worker-a:7557", "127.0.0.1:80", "[::1]:7557", "a_b:1"])(
    "%s stays",
    (host) => {
      const headers = { host };
      repairAuthority({ headers });
      expect(headers.host).toBe(host);
    },
  );

  test.each(["[", "a b", "::1:7557", "x:99999999", "", "a/b@c:d"])("%j is replaced", (host) => {
    const headers: Record<string, string> = { host, ":authority": host };
    repairAuthority({ headers });
    expect(() => new URL("/x", `http://${headers["host"]}`)).not.toThrow();
    expect(() => new URL("/x", `http://${headers[":authority"]}`)).not.toThrow();
  });

  test("an HTTP/2 request without an authority gets one", () => {
    const headers: Record<string, string> = { ":method": "POST" };
    repairAuthority({ headers });
    expect(headers[":authority"]).toBe("localhost");
  });
});
