/** Error texts for rejected commands. */
import type { Failure, CommandError } from "../ipc";

const codes = ["invalid", "not_found", "storage", "turn", "model", "hub", "other"];

/** Parses the value that a command was rejected with. */
export function commandError(error: unknown): CommandError {
  if (typeof error === "object" && error !== null && "code" in error) {
    const { code } = error as { code: unknown };
    if (typeof code === "string" && codes.includes(code)) return error as CommandError;
  }
  return { code: "other", reason: error instanceof Error ? error.message : String(error) };
}

/** Converts an error to a failed turn, which has its own card. */
export function failureOf(error: unknown): Failure {
  const rejection = commandError(error);
  if (rejection.code === "turn") return rejection.failure;
  if (rejection.code === "storage") return rejection;
  if (rejection.code === "invalid") return { code: "other", reason: `${rejection.field}: ${rejection.reason}` };
  if (rejection.code === "hub") return { code: "other", reason: rejection.error.reason };
  if (rejection.code === "model") return { code: "other", reason: rejection.error.detail };
  return { code: "other", reason: rejection.code === "other" ? rejection.reason : "" };
}
