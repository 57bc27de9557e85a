import { expect, test } from "vitest";
import { ReplayAccount } from "../../../src/bridge/dist/replay-account.js";
import { FIRST_SEQUENCE, LIMITS } from "../../../src/protocol/dist/index.js";

test("pauses double up to their bound and stay there, and end with the attempts", () => {
  const account = new ReplayAccount(9);
  account.open({ last: undefined, expected: FIRST_SEQUENCE });
  account.close(true);
  const first = LIMITS.replayPauseMs.value;
  const most = LIMITS.replayPauseMaxMs.value;
  const pauses = Array.from({ length: 9 }, () => account.pauseMs(FIRST_SEQUENCE));
  const doubled = [1, 2, 4, 8, 16, 32, 64, 128].map((times) => Math.min(most, first * times));
  expect(pauses).toEqual([...doubled, undefined]);
  expect(pauses[7], "the bound is reached").toBe(most);
});
