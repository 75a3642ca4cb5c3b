/** Entry point of the chat window. */
import { ipc } from "../ipc";
import { openChat } from "./open";

void openChat(document.getElementById("app")!).then(() => ipc.pageReady());
