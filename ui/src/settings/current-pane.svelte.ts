/** The current pane. The app may select one when it shows the window. */
import { PANES, type Pane } from "./pages";

class CurrentPane {
  pane = $state<Pane>("models");
  /** The id of the model whose settings are shown; null: the one in use. */
  model = $state<string | null>(null);

  /** Shows the pane of that name; ignores other names. `model:<id>` shows the settings of that model. */
  open(name: string | null): void {
    const [pane, ...id] = name?.split(":") ?? [];
    this.pane = PANES.find((one) => one === pane) ?? this.pane;
    if (id.length > 0) this.model = id.join(":");
  }
}

export const currentPane = new CurrentPane();
