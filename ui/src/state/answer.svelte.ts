/**
 * A growing response. The chat and the quick prompt use it.
 *
 * Rule: an update costs only what changed, however long the response is. Updates between two frames
 * are applied together, and after a short time if there are no frames.
 */
import {
  ipc, type AnswerStats, type Block, type EndingView, type MessageId, type MessageView,
  type Section, type Stage, type Unsubscribe, type Update,
} from "../ipc";
import { spoken } from "./spoken";
import { changed } from "./change";

/**
 * Minimum time between two repaints, less than two frames at 60 Hz so that every second frame is
 * used: text that is drawn 30 times per second looks as smooth as 60, for half the work.
 */
const REPAINT_MS = 26;

/** Maximum wait for a frame: hidden windows have none. */
const MAX_WAIT_MS = 100;

export class Answer {
  /** From the snapshot, and complete again at the end. */
  message = $state.raw<MessageView | null>(null);
  reasoning = $state.raw<Block[]>([]);
  blocks = $state.raw<Block[]>([]);
  stage = $state.raw<Stage>({ stage: "waiting", position: 0 });
  section = $state<Section>("answer");
  ending = $state.raw<EndingView>({ ending: "writing" });
  stats = $state.raw<AnswerStats | null>(null);
  /** When this page first saw reasoning, and its total duration in milliseconds. */
  thinkingSince = $state<number | null>(null);
  thinkingDuration = $state<number | null>(null);

  private queued: Update[] = [];
  /** The number of finished blocks that were announced or existed before. */
  private finishedBlocks = 0;
  private cancelFrame: (() => void) | null = null;
  private unfollow: Unsubscribe | null = null;
  private isStopped = false;
  private drawnAt = -Infinity;

  constructor(
    readonly id: MessageId,
    private callbacks: { finished?: (texts: string[]) => void; ended?: (message: MessageView) => void } = {},
  ) {}

  get isWriting(): boolean {
    return this.ending.ending === "writing";
  }

  /** Follows the response until it ends or the page stops following. */
  async follow(): Promise<void> {
    const unfollow = await ipc.follow(this.id, (update) => this.queue(update));
    if (this.isStopped) unfollow();
    else this.unfollow = unfollow;
  }

  /** Stops following; the response continues. */
  stopFollowing(): void {
    this.isStopped = true;
    this.cancelFrame?.();
    this.unfollow?.();
  }

  private queue(update: Update): void {
    if (this.isStopped) return;
    this.queued.push(update);
    if (update.update === "snapshot" || document.hidden) return this.flush();
    this.cancelFrame ??= nextFrame(() => this.flush(), this.drawnAt + REPAINT_MS - performance.now());
  }

  flush(): void {
    this.cancelFrame?.();
    this.cancelFrame = null;
    this.drawnAt = performance.now();
    const updates = this.queued;
    this.queued = [];
    for (const update of updates) this.apply(update);
    this.announceFinished();
    if (!this.isWriting && updates.length) this.finish();
  }

  private apply(update: Update): void {
    if (update.update === "snapshot") this.begin(update.snapshot);
    else if (update.update === "stage") this.stage = update.stage;
    else if (update.update === "text") {
      if (update.section === "reasoning") this.reasoning = changed(this.reasoning, update.change);
      else this.blocks = changed(this.blocks, update.change);
      this.setSection(update.section);
      this.stage = { stage: "writing", tokens_per_second: update.tokens_per_second };
    } else {
      this.ending = update.ending;
      this.stats = update.stats;
      this.setSection("answer");
      if (this.message) {
        const { text, ending, model, stats } = update;
        this.message = { ...this.message, text, ending, model, stats };
      }
    }
  }

  /** Announces the text of finished blocks. The last block grows until the end. */
  private announceFinished(): void {
    const count = this.blocks.length - (this.isWriting ? 1 : 0);
    const texts = this.blocks.slice(this.finishedBlocks, count).map(spoken).filter(Boolean);
    this.finishedBlocks = Math.max(this.finishedBlocks, count);
    if (texts.length) this.callbacks.finished?.(texts);
  }

  private begin(snapshot: Extract<Update, { update: "snapshot" }>["snapshot"]): void {
    const { message } = snapshot;
    this.message = message;
    this.reasoning = message.reasoning;
    this.blocks = message.blocks;
    this.stage = snapshot.stage;
    this.ending = message.ending;
    this.stats = message.stats;
    this.finishedBlocks = message.blocks.length - (this.isWriting ? 1 : 0);
    if (message.blocks.length) this.setSection("answer");
    else if (message.reasoning.length) this.setSection("reasoning");
  }

  private setSection(section: Section): void {
    this.section = section;
    if (section === "reasoning") this.thinkingSince ??= performance.now();
    else if (this.thinkingSince !== null) {
      this.thinkingDuration ??= performance.now() - this.thinkingSince;
    }
  }

  private finish(): void {
    this.stopFollowing();
    if (!this.message) return;
    this.message = { ...this.message, reasoning: this.reasoning, blocks: this.blocks };
    this.callbacks.ended?.(this.message);
  }
}

/**
 * Runs `act` before the first frame after `delay` milliseconds, or after a short time if there is
 * none. Returns a function that cancels it.
 */
function nextFrame(act: () => void, after: number): () => void {
  let frame = 0;
  const early = setTimeout(() => (frame = requestAnimationFrame(act)), Math.max(0, after));
  const late = setTimeout(act, MAX_WAIT_MS);
  return () => {
    clearTimeout(early);
    cancelAnimationFrame(frame);
    clearTimeout(late);
  };
}
