/** The last results of benchmarks, and the one that runs, for the Models pane. */
import { ipc, type AppEvent, type BenchmarkProgress, type BenchmarkView } from "../ipc";
import { commandError } from "./command-error";

class Benchmarks {
  /** The newest first. */
  results = $state.raw<BenchmarkView[]>([]);
  running = $state.raw<BenchmarkProgress | null>(null);
}

export const benchmarks = new Benchmarks();

/** The number of the last load that was started. */
let last = 0;

/** Loads the results now. The command line may have added some. */
export async function loadBenchmarks(): Promise<void> {
  const turn = ++last;
  try {
    const read = await ipc.benchmarks();
    // A later load has newer data.
    if (turn !== last) return;
    benchmarks.results = read.results;
    benchmarks.running = read.running;
  } catch (error) {
    // The rest of the page works without them.
    console.warn("the results of benchmarks cannot be read", commandError(error));
  }
}

export function handleBenchmarkEvent(event: AppEvent): void {
  if (event.event !== "benchmark") return;
  benchmarks.running = event.running;
  if (!event.running) void loadBenchmarks();
}
