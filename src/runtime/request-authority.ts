/**
 * What it is: the repair of a request's authority before a library makes a URL of it.
 * Owns: nothing.
 * Refuses: nothing: nobody here reads the authority, so one that is no authority is replaced, not answered.
 * Does not do: route. Without this a malformed Host header, or an IPv6 address without brackets (as Node's own HTTP/2
 * client writes it), throws inside connect-node's adapter and ends the process.
 */

/** What is used of a request. */
export interface AuthorityRequest {
  readonly headers: Record<string, string | string[] | undefined>;
}

const NEUTRAL = "localhost";

/** Makes `:authority` and `host` fit for a URL. Allocates nothing for a request that has the usual ones. */
export function repairAuthority(request: AuthorityRequest): void {
  const { headers } = request;
  const isHttp2 = headers[":method"] !== undefined;
  if (isHttp2 && headers[":authority"] === undefined) headers[":authority"] = NEUTRAL;
  for (const name of [":authority", "host"] as const) {
    const value = headers[name];
    if (value === undefined) continue;
    if (typeof value !== "string" || !isAuthority(value)) headers[name] = NEUTRAL;
  }
}

function isAuthority(value: string): boolean {
  if (/^[\w.-]+(?::\d{1,4})?$/.test(value)) return true;
  return value !== "" && URL.canParse(`http://${value}/`);
}
