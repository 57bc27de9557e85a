/**
 * What it is: tells the variables that Kubernetes injects for a Service from those that an operator
 * set. A Service called "kvgroup-bridge" puts KVGROUP_BRIDGE_SERVICE_HOST, KVGROUP_BRIDGE_PORT,
 * KVGROUP_BRIDGE_PORT_7557_TCP and more into every pod of its namespace, under our own prefix.
 * Refusing them as unknown, or reading tcp://10.0.0.1:7557 as a port, would keep a correct program
 * from starting.
 * Owns: nothing.
 * Refuses: nothing.
 * Does not do: hide typing mistakes: without the Service's own SERVICE_HOST a name is the
 * operator's.
 * Source: Kubernetes documentation, "Accessing the Service", environment variables ("Docker
 * links").
 */

/** <SERVICE>_ and what follows for one Service; the first group is <SERVICE>_. */
const LINK =
  /^(.*?)(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

/** True when Kubernetes made `variable`, one of `environment`. */
export function isServiceLink(
  variable: string,
  environment: Readonly<Record<string, string | undefined>>,
): boolean {
  const found = LINK.exec(variable);
  const stem = found?.[1];
  if (stem === undefined || environment[`${stem}SERVICE_HOST`] === undefined) return false;
  // <SERVICE>_PORT may also be a name of ours (http.port): the value decides.
  if (found?.[2] !== "PORT") return true;
  return /^(tcp|udp|sctp):\/\//.test(environment[variable] ?? "");
}
