/** Entry point of the quick prompt, which stays loaded and hidden, so that it appears at once. */
import "../style/base.css";
import { mount, tick } from "svelte";
import { ipc } from "../ipc";
import { startApp } from "../state/app.svelte";
import Prompt from "./Prompt.svelte";
import { Session } from "./session.svelte";

const session = new Session();
await startApp((event) => {
  if (event.event === "shown" && event.window === "prompt") session.shown();
  else if (event.event === "target") session.target = event.target;
  else if (event.event === "history_cleared") session.forgetAll();
});
const target = document.getElementById("app");
if (target) mount(Prompt, { target, props: { session } });
await tick();
await ipc.pageReady();
