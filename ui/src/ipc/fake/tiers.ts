/** The recommendations of the fake app by memory size. This computer has 16 GB. */
import type { PickView, TierView } from "../bindings";
import { GB } from "./defaults";

function pick(
  entry: string, name: string, gigabytes: number, low: number, high: number, quantization = "4-bit",
): PickView {
  return { entry, name, quantization, need_bytes: gigabytes * GB, speed: { low, high, is_measured: false } };
}

function tier(
  gigabytes: number, room: number, chat: PickView | null, code: PickView | null, pair: PickView[],
  change: Partial<TierView> = {},
): TierView {
  const [main, second] = pair;
  return {
    memory_bytes: gigabytes * GB, room_bytes: room * GB, is_this_computer: false, chat, code,
    small: pick("llama-3.2-1b", "Llama 3.2 1B", 1.2, 47 + room, 106 + 3 * room),
    pair: main && second
      ? { kind: "draft", main, second, need_bytes: main.need_bytes + second.need_bytes } : null,
    ...change,
  };
}

export function tiers(): TierView[] {
  const draft = (low: number, high: number) => pick("qwen3-0.6b", "Qwen3 0.6B", 1.6, low, high);
  const large = (low: number, high: number) => pick("qwen3-32b", "Qwen3 32B", 19.7, low, high);
  const coder = (low: number, high: number) =>
    pick("qwen2.5-coder-32b", "Qwen2.5 Coder 32B", 19.7, low, high);
  return [
    tier(8, 4.8, pick("gemma-4-e4b", "Gemma 4 E4B", 4.6, 9.3, 21),
      pick("qwen2.5-coder-7b", "Qwen2.5 Coder 7B", 4.8, 8.8, 20),
      [pick("llama-3.2-3b", "Llama 3.2 3B", 3, 17, 38), pick("llama-3.2-1b", "Llama 3.2 1B", 1.2, 47, 106)]),
    tier(16, 10.5, pick("qwen3-8b", "Qwen3 8B", 6.2, 13, 20),
      pick("qwen2.5-coder-7b", "Qwen2.5 Coder 7B", 5.7, 14, 21),
      [pick("qwen3-8b", "Qwen3 8B", 6.2, 13, 20), draft(60, 92)],
      { is_this_computer: true, small: pick("gemma-3-4b", "Gemma 3 4B", 4, 23, 35) }),
    tier(24, 15.5, pick("mistral-small-3.2-24b", "Mistral Small 3.2 24B", 14.1, 4.2, 17),
      pick("devstral-small-2-24b", "Devstral Small 2 24B", 14.1, 4.2, 17),
      [pick("qwen3-14b", "Qwen3 14B", 9.4, 6.5, 27), draft(64, 272)]),
    tier(36, 23.5, large(4.5, 25), coder(4.5, 25), [large(4.5, 25), draft(91, 505)]),
    tier(48, 35.5, large(4.5, 25), coder(4.5, 25), [large(4.5, 25), draft(91, 505)]),
    tier(64, 47.5, large(6, 25), coder(6, 25), [large(6, 25), draft(116, 505)]),
    tier(96, 71.5, large(8.9, 27), coder(8.9, 27), [large(8.9, 27), draft(158, 541)]),
    tier(128, 95.5, large(8.9, 27), coder(8.9, 27), [large(8.9, 27), draft(158, 541)]),
    tier(192, 143.5, pick("llama-3.3-70b", "Llama 3.3 70B", 40, 5.7, 13), coder(12, 27),
      [pick("llama-3.3-70b", "Llama 3.3 70B", 40, 5.7, 13), pick("llama-3.2-1b", "Llama 3.2 1B", 1.2, 225, 577)]),
  ];
}
