/** The chat window begins here. */
import { ipc } from "../ipc";
import { openChat } from "./open";

void openChat(document.getElementById("app")!).then(() => ipc.pageReady());
