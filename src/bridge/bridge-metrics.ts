/**
 * What it is: a bridge's state as Prometheus text, read at scrape time.
 * Owns: the names of the metrics.
 * Refuses: nothing.
 * Does not do: count. Series exist for present ranks only.
 */
