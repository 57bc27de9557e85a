/**
 * What it is: one number out of a process's metrics.
 * Owns: nothing.
 * Refuses: a metric without a series: a misspelt name must not read as 0.
 * Does not do: parse more of the text format than our own metrics use.
 */

/** The sum of the series of `name` whose line contains `label`. */
export async function readMetrics(port: number, name: string, label = ""): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  const lines = (await response.text()).split("\n");
  const series = lines.filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  if (series.length === 0) throw new Error(`no metric ${name}`);
  return series
    .filter((line) => line.includes(label))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}
