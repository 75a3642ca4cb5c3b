//! Parses how the program was started: by arguments or by a `transom://` link.
//!
//! Rule: links come from anywhere, so they only open a window or fill the composer. They never
//! send, delete or change anything. Their text has a maximum length.

use tauri::Url;
use transom_files::is_control;

use crate::wire::Window;

/// Passed by the login item: shows only the menu-bar icon.
pub(crate) const HIDDEN: &str = "--hidden";

/// Maximum number of characters that a link puts into the composer.
const MAX_COMPOSER_CHARACTERS: usize = 20_000;

/// What to do at startup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaunchAction {
    /// Show only the menu-bar icon.
    Icon,
    /// Show a window.
    Show {
        window: Window,
        /// The settings pane, if it is the settings window.
        pane: Option<String>,
    },
    /// Show the chat with this text in the composer.
    Compose(String),
}

impl LaunchAction {
    /// Shows a window as it is.
    pub(crate) fn show(window: Window) -> Self {
        Self::Show { window, pane: None }
    }
}

/// Returns the action for `arguments` (without the program's name). A user who starts the program
/// wants to see it, so the default is to show the chat.
pub(crate) fn launch_action(arguments: &[String]) -> LaunchAction {
    let link = arguments.iter().find_map(|argument| parse_link(argument));
    let is_hidden = arguments.iter().any(|argument| argument == HIDDEN);
    match link {
        Some(action) => action,
        None if is_hidden => LaunchAction::Icon,
        None => LaunchAction::show(Window::Chat),
    }
}

/// Parses a link; `None` if it is not a `transom://` link. An unknown `transom://` link shows the
/// chat.
pub(crate) fn parse_link(text: &str) -> Option<LaunchAction> {
    let url = Url::parse(text).ok()?;
    if url.scheme() != "transom" {
        return None;
    }
    let mut path = url.path_segments().into_iter().flatten();
    Some(match url.host_str() {
        Some("prompt") => LaunchAction::show(Window::Prompt),
        Some("settings") => LaunchAction::Show {
            window: Window::Settings,
            pane: path.next().and_then(settings_pane),
        },
        Some("compose") => {
            let text = url.query_pairs().find(|(key, _)| key == "text");
            let text = text.map(|(_, text)| text).unwrap_or_default();
            LaunchAction::Compose(composer_text(&text))
        }
        _ => LaunchAction::show(Window::Chat),
    })
}

/// Returns the name if such a settings pane exists.
fn settings_pane(name: &str) -> Option<String> {
    let known = ["models", "model", "behavior", "api", "general", "about"];
    known.contains(&name).then(|| name.to_owned())
}

/// Limits the text for a composer, and removes invisible characters.
fn composer_text(text: &str) -> String {
    let is_text = |c: &char| !is_control(*c) || matches!(c, '\n' | '\t');
    text.chars()
        .filter(is_text)
        .take(MAX_COMPOSER_CHARACTERS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> LaunchAction {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        launch_action(&arguments)
    }

    #[test]
    fn a_start_shows_the_chat_and_a_login_only_the_icon() {
        assert_eq!(of(&[]), LaunchAction::show(Window::Chat));
        assert_eq!(of(&["--hidden"]), LaunchAction::Icon);
        assert_eq!(of(&["--what"]), LaunchAction::show(Window::Chat));
    }

    #[test]
    fn a_link_opens_its_window() {
        assert_eq!(of(&["transom://chat"]), LaunchAction::show(Window::Chat));
        assert_eq!(
            of(&["--hidden", "transom://prompt"]),
            LaunchAction::show(Window::Prompt)
        );
        let model = LaunchAction::Show {
            window: Window::Settings,
            pane: Some("model".to_owned()),
        };
        assert_eq!(of(&["transom://settings/model"]), model);
        assert_eq!(
            of(&["transom://settings"]),
            LaunchAction::show(Window::Settings)
        );
        assert_eq!(
            of(&["transom://settings/../x"]),
            LaunchAction::show(Window::Settings)
        );
        assert_eq!(
            of(&["transom://delete/all"]),
            LaunchAction::show(Window::Chat)
        );
    }

    #[test]
    fn other_links_are_ignored() {
        assert_eq!(parse_link("https://example.com/chat"), None);
        assert_eq!(parse_link("chat"), None);
    }

    #[test]
    fn composer_text_is_decoded_limited_and_visible() {
        let of = |link: &str| super::parse_link(link);
        let compose = |text: &str| Some(LaunchAction::Compose(text.to_owned()));
        assert_eq!(
            of("transom://compose?text=a%20b%0Ac%26"),
            compose("a b\nc&")
        );
        assert_eq!(of("transom://compose?text=a%1B%5B2Jb%00"), compose("a[2Jb"));
        assert_eq!(of("transom://compose?text=a%E2%80%AEb"), compose("ab"));
        assert_eq!(of("transom://compose"), compose(""));
        let long = format!(
            "transom://compose?text={}",
            "é".repeat(MAX_COMPOSER_CHARACTERS + 5)
        );
        assert_eq!(of(&long), compose(&"é".repeat(MAX_COMPOSER_CHARACTERS)));
    }
}
