/** The current pane. The app may select one when it shows the window. */
import { PANES, type Pane } from "./pages";

class CurrentPane {
  pane = $state<Pane>("models");
  /** The id of the model whose settings are shown; null: the one in use. */
  model = $state<string | null>(null);

  /** Shows the pane of that name; ignores other names. */
  open(name: string | null): void {
    this.pane = PANES.find((pane) => pane === name) ?? this.pane;
  }
}

export const currentPane = new CurrentPane();
