/** Error texts for rejected commands. */
import type { Failure, Refusal } from "../ipc";

const codes = ["invalid", "not_found", "storage", "turn", "hub", "other"];

/** Parses the value that a command was rejected with. */
export function refusal(error: unknown): Refusal {
  if (typeof error === "object" && error !== null && "code" in error) {
    const { code } = error as { code: unknown };
    if (typeof code === "string" && codes.includes(code)) return error as Refusal;
  }
  return { code: "other", reason: error instanceof Error ? error.message : String(error) };
}

/** Converts an error to a failed turn, which has its own card. */
export function failureOf(error: unknown): Failure {
  const said = refusal(error);
  if (said.code === "turn") return said.failure;
  if (said.code === "storage") return { code: "storage", reason: said.reason };
  if (said.code === "invalid") return { code: "other", reason: `${said.field}: ${said.reason}` };
  if (said.code === "hub") return { code: "other", reason: said.trouble.reason };
  return { code: "other", reason: said.code === "other" ? said.reason : "" };
}
