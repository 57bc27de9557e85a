/**
 * What it is: libzmq's monitor events → "somebody is connected", as a synchronous state.
 * Owns: the count of peers that completed a handshake (more than one only where we bind).
 * Refuses: nothing.
 * Does not do: reconnect. libzmq tells no peer's identity, only that each failed handshake is
 * followed by exactly one disconnect, which therefore is not one of a counted peer.
 */

/** Each method returns the new state when it changed, else undefined. */
export class ConnectionTracker {
  private peers = 0;
  private failedHandshakes = 0;

  /** A peer is usable. */
  handshake(): boolean | undefined {
    this.peers++;
    return this.peers === 1 ? true : undefined;
  }

  /** A peer never became usable; its disconnect follows. */
  handshakeFailed(): void {
    this.failedHandshakes++;
  }

  /** A peer is gone, or a failed handshake's connection is. */
  disconnect(): boolean | undefined {
    if (this.failedHandshakes > 0) {
      this.failedHandshakes--;
      return undefined;
    }
    if (this.peers === 0) return undefined;
    this.peers--;
    return this.peers === 0 ? false : undefined;
  }
}
