//! What a start of the program asks for: by its arguments, or by a `transom://` link.
//!
//! Rule: a link comes from anywhere, so it opens a window or fills the composer, and never sends,
//! deletes or changes anything. Its text has a bound.

use tauri::Url;
use transom_files::is_control;

use crate::wire::Window;

/// Given by the login item: only the icon appears.
pub(crate) const HIDDEN: &str = "--hidden";

/// Most characters that a link puts into the composer.
const MAX_COMPOSED: usize = 20_000;

/// What a start asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Only the icon.
    Icon,
    /// A window.
    Show {
        /// Which.
        window: Window,
        /// Of settings, which pane.
        pane: Option<String>,
    },
    /// The chat, with this in the composer.
    Compose(String),
}

impl Wish {
    fn show(window: Window) -> Self {
        Self::Show { window, pane: None }
    }
}

/// What `arguments`, without the program's name, ask for. A person who starts the program wants to
/// see it, so the chat is shown unless something else is asked for.
pub(crate) fn wish(arguments: &[String]) -> Wish {
    let link = arguments.iter().find_map(|argument| link(argument));
    let is_hidden = arguments.iter().any(|argument| argument == HIDDEN);
    match link {
        Some(wish) => wish,
        None if is_hidden => Wish::Icon,
        None => Wish::show(Window::Chat),
    }
}

/// What a link asks for; `None` if it is no link of ours. One that is ours and says nothing that is
/// known shows the chat.
pub(crate) fn link(text: &str) -> Option<Wish> {
    let url = Url::parse(text).ok()?;
    if url.scheme() != "transom" {
        return None;
    }
    let mut path = url.path_segments().into_iter().flatten();
    Some(match url.host_str() {
        Some("prompt") => Wish::show(Window::Prompt),
        Some("settings") => Wish::Show {
            window: Window::Settings,
            pane: path.next().and_then(pane),
        },
        Some("compose") => {
            let text = url.query_pairs().find(|(key, _)| key == "text");
            Wish::Compose(composed(&text.map(|(_, text)| text).unwrap_or_default()))
        }
        _ => Wish::show(Window::Chat),
    })
}

/// A pane of settings that there is.
fn pane(name: &str) -> Option<String> {
    let known = ["models", "model", "behaviour", "general", "about"];
    known.contains(&name).then(|| name.to_owned())
}

/// Text fit for a composer: bounded, and without characters that nobody could see.
fn composed(text: &str) -> String {
    let is_text = |c: &char| !is_control(*c) || matches!(c, '\n' | '\t');
    text.chars().filter(is_text).take(MAX_COMPOSED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Wish {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        wish(&arguments)
    }

    #[test]
    fn a_person_sees_the_chat_and_a_login_only_the_icon() {
        assert_eq!(of(&[]), Wish::show(Window::Chat));
        assert_eq!(of(&["--hidden"]), Wish::Icon);
        assert_eq!(of(&["--what"]), Wish::show(Window::Chat));
    }

    #[test]
    fn a_link_opens_its_window() {
        assert_eq!(of(&["transom://chat"]), Wish::show(Window::Chat));
        assert_eq!(
            of(&["--hidden", "transom://prompt"]),
            Wish::show(Window::Prompt)
        );
        let model = Wish::Show {
            window: Window::Settings,
            pane: Some("model".to_owned()),
        };
        assert_eq!(of(&["transom://settings/model"]), model);
        assert_eq!(of(&["transom://settings"]), Wish::show(Window::Settings));
        assert_eq!(
            of(&["transom://settings/../x"]),
            Wish::show(Window::Settings)
        );
        assert_eq!(of(&["transom://delete/all"]), Wish::show(Window::Chat));
    }

    #[test]
    fn a_link_of_others_is_none_of_ours() {
        assert_eq!(link("https://example.com/chat"), None);
        assert_eq!(link("chat"), None);
    }

    #[test]
    fn composed_text_is_decoded_bounded_and_visible() {
        let of = |link: &str| super::link(link);
        let compose = |text: &str| Some(Wish::Compose(text.to_owned()));
        assert_eq!(
            of("transom://compose?text=a%20b%0Ac%26"),
            compose("a b\nc&")
        );
        assert_eq!(of("transom://compose?text=a%1B%5B2Jb%00"), compose("a[2Jb"));
        assert_eq!(of("transom://compose?text=a%E2%80%AEb"), compose("ab"));
        assert_eq!(of("transom://compose"), compose(""));
        let long = format!("transom://compose?text={}", "é".repeat(MAX_COMPOSED + 5));
        assert_eq!(of(&long), compose(&"é".repeat(MAX_COMPOSED)));
    }
}
