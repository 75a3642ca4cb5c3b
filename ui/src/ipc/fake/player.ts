/**
 * One growing response of the fake app. It plays by time, or a test controls it: `stage`, `write`
 * and `end` send the same updates as the app.
 */
import type {
  AnswerStats, EndingView, MessageView, Section, Stage, Update,
} from "../bindings";
import { blocks, source, type Piece } from "./text";

export interface Script {
  reasoning?: string;
  answer: Piece[];
  stages?: Stage[];
  /** Words per second; 0: nothing happens by itself. */
  rate: number;
  initialWords?: number;
  stays?: boolean;
  ending?: EndingView;
}

type Listener = (update: Update) => void;

export class Player {
  private listeners = new Set<Listener>();
  private words: { section: Section; piece: number; text: string }[] = [];
  private at = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private open = { section: "answer" as Section, piece: -1, text: "" };
  private now: Stage;
  private started = 0;
  private whole: { reasoning: Piece[]; answer: Piece[] };

  constructor(readonly message: MessageView, readonly script: Script) {
    const reasoning = script.reasoning ? [{ words: script.reasoning }] : [];
    this.whole = { reasoning, answer: script.answer };
    for (const section of ["reasoning", "answer"] as const) {
      this.whole[section].forEach((one, piece) => {
        const all = "words" in one ? one.words.split(/(?<=\s)/) : [""];
        for (const text of all) this.words.push({ section, piece, text });
      });
    }
    this.now = script.stages?.[0] ?? { stage: "writing", tokens_per_second: null };
    if (script.initialWords) {
      this.now = { stage: "writing", tokens_per_second: 42 };
      this.write(script.initialWords);
    }
  }

  follow(listener: Listener): () => void {
    const snapshot = {
      message: { ...this.message, blocks: [...this.message.blocks],
        reasoning: [...this.message.reasoning] },
      stage: this.now,
    };
    listener({ update: "snapshot", snapshot });
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Plays by time, at most 60 updates per second. */
  play(): void {
    if (this.script.rate <= 0) return;
    const later = [...(this.script.stages ?? []).slice(1)];
    const step = Math.max(16, 1000 / this.script.rate);
    this.started = performance.now();
    const next = () => {
      const stage = later.shift();
      if (stage) this.stage(stage);
      else this.write(Math.max(1, Math.round((this.script.rate * step) / 1000)));
      if (this.at < this.words.length) this.timer = setTimeout(next, stage ? 300 : step);
      else if (!this.script.stays) this.end(this.script.ending ?? { ending: "stop" });
    };
    this.timer = setTimeout(next, step);
  }

  get written(): number {
    return this.at;
  }

  stage(stage: Stage): void {
    this.now = stage;
    this.emit({ update: "stage", stage });
  }

  write(n: number): void {
    for (let left = n; left > 0 && this.at < this.words.length; ) {
      const { section, piece } = this.words[this.at]!;
      const rest = this.words.slice(this.at, this.at + left);
      const batch = rest.filter((word) => word.section === section && word.piece === piece);
      this.at += batch.length;
      left -= batch.length;
      this.grow(section, piece, batch.map((word) => word.text).join(""));
    }
  }

  private grow(section: Section, piece: number, fresh: string): void {
    const one = this.whole[section][piece]!;
    const isStarted = this.open.section === section && this.open.piece === piece;
    const text = (isStarted ? this.open.text : "") + fresh;
    this.open = { section, piece, text };
    const [block] = blocks(["words" in one ? { words: text } : one]);
    const all = section === "answer" ? this.message.blocks : this.message.reasoning;
    all[piece] = block!;
    this.now = { stage: "writing", tokens_per_second: 42 };
    this.emit({
      update: "text", section, tokens_per_second: 42,
      change: { n_blocks: all.length, blocks: [[piece, block!]] },
    });
  }

  end(ending: EndingView): void {
    clearTimeout(this.timer);
    if (this.message.ending.ending !== "writing") return;
    const n = this.message.blocks.length;
    this.message.text = source(this.whole.answer.slice(0, n));
    this.message.ending = ending;
    this.message.stats = n ? this.stats() : null;
    this.emit({ update: "ended", text: this.message.text, ending, model: this.message.model,
      stats: this.message.stats });
    this.listeners.clear();
  }

  private stats(): AnswerStats {
    const seconds = (performance.now() - this.started) / 1000;
    return {
      prompt_tokens: 212, cached_tokens: 180, generated_tokens: Math.round(this.at * 1.3),
      time_to_first_token_seconds: 0.42, dropped_messages: 0, context_length: null, route: "chat", is_partial: false,
      tokens_per_second: seconds > 0.2 ? (this.at * 1.3) / seconds : 41.8,
    };
  }

  private emit(update: Update): void {
    for (const listener of [...this.listeners]) listener(update);
  }
}
