/** Checks the pane of the local API: its settings, keys, clients and requests. */
import { fireEvent, render, screen, waitFor, within } from "@testing-library/svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { apiClient, busyClients, newKey, someRequests } from "../ipc/fake/local-api";
import { startApp } from "../state/app.svelte";
import { currentPane } from "./current-pane.svelte";
import { Live } from "./live.svelte";
import Settings from "./Settings.svelte";

let fake: FakeIpc;
let stop: () => void;

async function open(setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp();
  currentPane.pane = "api";
  const drawn = render(Settings, { live: new Live() });
  await screen.findByRole("switch", { name: "Serve models to other apps" });
  return drawn;
}

function isOn(fake: FakeIpc) {
  void fake.updateSettings({ local_api: { is_on: true } });
  fake.setLocalApi({ clients: busyClients(), requests: someRequests() });
  fake.calls = [];
}

function calls(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

/** The row of the list that contains this text. */
function row(text: string | RegExp): HTMLElement {
  return screen.getByText(text).closest<HTMLElement>(".row, li")!;
}

beforeEach(() => {
  stop?.();
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

describe("the local API pane", () => {
  it("is off by default, and shows the first key once when it is turned on", async () => {
    await open();
    expect(screen.queryByText("Apps and keys")).toBeNull();
    await fireEvent.click(screen.getByRole("switch"));
    await screen.findByText("http://localhost:11535/v1");
    await screen.findByText(newKey);
    const group = screen.getByRole("group", { name: /^This is the key “default”/ });
    await fireEvent.click(within(group).getByRole("button", { name: "Copy" }));
    expect(fake.copied).toEqual([newKey]);
    await fireEvent.click(within(group).getByRole("button", { name: "Done" }));
    expect(screen.queryByText(newKey)).toBeNull();
    expect(calls("updateSettings")).toEqual([[{ local_api: { is_on: true } }]]);
    expect(calls("addApiKey")).toEqual([[null]]);
  });

  it("creates no key if there is one, and none if it can't be turned on", async () => {
    await open((fake) => fake.setLocalApi({ clients: [apiClient("editor")] }));
    await fireEvent.click(screen.getByRole("switch"));
    await screen.findByText("Not used yet");
    expect(screen.queryByText(newKey)).toBeNull();
    await fireEvent.click(screen.getByRole("switch"));
    await waitFor(() => expect(calls("updateSettings")).toHaveLength(2));
    fake.calls = [];
    fake.refuse("updateSettings", { code: "other", reason: "disk full" });
    await fireEvent.click(screen.getByRole("switch"));
    await screen.findByText(/disk full/);
    expect(calls("addApiKey")).toEqual([]);
  });

  it("says what uses the port, and tries again", async () => {
    await open((fake) => {
      isOn(fake);
      fake.setLocalApi({ state: { state: "already_served", port: 11_535 } });
    });
    const alert = await screen.findByRole("alert");
    expect(alert.textContent).toContain("“transom serve” already serves your models at port 11535");
    await fireEvent.click(screen.getByRole("button", { name: "Try Again" }));
    await waitFor(() => expect(calls("updateSettings")).toEqual([[{ local_api: { is_on: true } }]]));
    fake.setLocalApi({ state: { state: "port_taken", port: 11_434, is_ollama: true } });
    await screen.findByText(/^Another app, such as Ollama, uses port 11434/);
    fake.setLocalApi({ state: { state: "listening", port: 11_535, ollama_port: 11_434 } });
    await screen.findByText(/Apps made for Ollama use http:\/\/localhost:11434\./);
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it("changes the ports, and refuses what is none", async () => {
    await open(isOn);
    const port = screen.getByLabelText("Port");
    await fireEvent.change(port, { target: { value: "80" } });
    await screen.findByText("Enter a number from 1024 to 65535.");
    await fireEvent.change(port, { target: { value: "8080" } });
    await fireEvent.change(screen.getByLabelText("Ollama-compatible port"), { target: { value: "11434" } });
    await waitFor(() => expect(calls("updateSettings")).toEqual([
      [{ local_api: { port: 8080 } }], [{ local_api: { ollama_port: 11_434 } }],
    ]));
    await fireEvent.change(port, { target: { value: "" } });
    await waitFor(() => expect(calls("updateSettings").at(-1)).toEqual([{ local_api: { port: null } }]));
    await screen.findByText("http://localhost:11535/v1");
  });

  it("sends the allowed origins when the field is left, and shows which one is wrong", async () => {
    await open(isOn);
    const field = screen.getByLabelText("Allowed origins");
    await fireEvent.input(field, { target: { value: "https://a.example\n\n*" } });
    fake.refuse("updateSettings", { code: "invalid", field: "local_api.allowed_origins", reason: "\"*\" must be an origin" });
    await fireEvent.blur(field);
    await screen.findByText("Invalid value: \"*\" must be an origin");
    expect(calls("updateSettings")).toEqual([[{ local_api: { allowed_origins: ["https://a.example", "*"] } }]]);
    expect((field as HTMLTextAreaElement).value).toBe("https://a.example\n\n*");
  });

  it("shows what each program does and has used", async () => {
    await open(isOn);
    expect(row("zed").textContent).toContain("Generating with Qwen3 4B · 4-bit: 212 tokens");
    expect(row("claude-code").textContent).toContain("Waiting for Qwen3 4B · 4-bit");
    expect(row("backup-script").textContent).toMatch(/640 tokens · last request/);
    expect(row("open-webui").textContent).toContain("Not used yet");
    fake.setLocalApi({ clients: [apiClient("local", { created_at: null })] });
    await screen.findByText("Uses “transom serve” in a terminal");
    expect(screen.queryByRole("button", { name: "Revoke local" })).toBeNull();
    fake.setLocalApi({ clients: [], keys_problem: "api-keys.json: expected a list" });
    await screen.findByText("Can’t read the keys: api-keys.json: expected a list");
  });

  it("creates a named key, and revokes one after a question", async () => {
    await open(isOn);
    await fireEvent.click(screen.getByRole("button", { name: "New Key" }));
    const field = screen.getByLabelText("Name of the app");
    await fireEvent.input(field, { target: { value: "zed" } });
    await screen.findByText("There’s already a key with this name.");
    await fireEvent.input(field, { target: { value: "my editor" } });
    await fireEvent.click(screen.getByRole("button", { name: "Create Key" }));
    await screen.findByText("Use 1 to 40 letters, digits, hyphens, or underscores.");
    expect(calls("addApiKey")).toEqual([]);
    await fireEvent.input(field, { target: { value: "editor" } });
    await fireEvent.click(screen.getByRole("button", { name: "Create Key" }));
    await screen.findByText(newKey);
    await fireEvent.click(screen.getByRole("button", { name: "Revoke editor" }));
    expect(calls("revokeApiKey")).toEqual([]);
    await fireEvent.click(screen.getByRole("button", { name: "Revoke" }));
    await waitFor(() => expect(calls("revokeApiKey")).toEqual([["editor"]]));
    await waitFor(() => expect(screen.queryByText(newKey)).toBeNull());
  });

  it("lists the last requests without their text", async () => {
    await open(isOn);
    expect(row("/v1/messages/count_tokens").textContent).toContain("200");
    expect(screen.getByText("Running")).toBeTruthy();
    expect(screen.getByText("Canceled")).toBeTruthy();
    expect(row(/No valid key/).textContent).toContain("401");
    expect(screen.getAllByText(/1,840 prompt \+ 96 response tokens/)).toHaveLength(1);
  });

  it("has lines for each program, for the port in use", async () => {
    await open(isOn);
    await fireEvent.change(await screen.findByLabelText("App"), { target: { value: "claude-code" } });
    await screen.findByText(/ANTHROPIC_BASE_URL=http:\/\/localhost:11535/);
    await fireEvent.click(screen.getByRole("button", { name: "Copy: Claude Code" }));
    expect(fake.copied.at(-1)).toContain("ANTHROPIC_BASE_URL");
    fake.setSettings({ local_api: { is_on: true, port: 8080, ollama_port: null, allowed_origins: [] } });
    await screen.findByText(/ANTHROPIC_BASE_URL=http:\/\/localhost:8080/);
  });

  it("is told nothing while the window is hidden", async () => {
    await open(isOn);
    const hide = (hidden: boolean) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    };
    hide(true);
    await waitFor(() => expect(fake.apiFollowers.size).toBe(0));
    hide(false);
    await waitFor(() => expect(fake.apiFollowers.size).toBe(1));
  });
});
