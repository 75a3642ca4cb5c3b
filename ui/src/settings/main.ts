/** The settings window: draws the page when all data is loaded, then reports that it is ready. */
import "../style/base.css";
import { mount, tick } from "svelte";
import { ipc } from "../ipc";
import { startApp } from "../state/app.svelte";
import { Live } from "./live.svelte";
import Settings from "./Settings.svelte";
import { currentPane } from "./current-pane.svelte";

await startApp((event) => {
  if (event.event === "shown" && event.window === "settings") currentPane.open(event.pane);
});
const target = document.getElementById("app");
if (target) mount(Settings, { target, props: { live: new Live() } });
await tick();
await ipc.pageReady();
