//! Routes: what kind of help a message asks for, and what that changes in its request.
//!
//! [`route`] is a pure function over the text and the kind of the attachment. What the user said
//! outright counts first: a command such as `/translate`, or a route that a window names. The words
//! are data in `routing/cues.toml`, the changes in `transom_engine::route`, and those of the user in
//! [`Routes`].
//!
//! Rule: if in doubt, the route is [`Route::Chat`], which changes nothing. A route never chooses the
//! model, and the history holds only what the user wrote. The HTTP API does not come through here.

mod changes;
mod classify;
mod draft;
mod limits;
mod normal;
mod tokens;

pub use changes::Routes;
pub use draft::{Draft, DraftRoute, route_of_draft};
pub use limits::{RouteLimits, check_attached};
pub(crate) use limits::{history_share, size_of};
pub use tokens::estimated_tokens;
pub use transom_engine::Route;
use transom_engine::RouteSettings;
use transom_store::{AttachedText, Message, MessageRole, ModelSettings, attached_text};

use crate::ending::stats_of;

/// Who decides the route of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routing {
    /// Nobody: every message is [`Route::Chat`].
    Off,
    /// [`route`], from the message and the response before it.
    #[default]
    Automatic,
    /// The user.
    Chosen(Route),
}

impl Routing {
    /// Returns who decides if the user said nothing about the message.
    pub fn unless_off(is_off: bool) -> Self {
        if is_off { Self::Off } else { Self::Automatic }
    }

    /// Returns the route that the user chose.
    pub(crate) fn chosen(self) -> Option<Route> {
        match self {
            Self::Chosen(route) => Some(route),
            Self::Automatic | Self::Off => None,
        }
    }
}

/// The kind of the text that is attached to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SelectionKind {
    /// Nothing is attached.
    #[default]
    None,
    /// Selected, copied or pasted text.
    Text,
    /// Part of a program.
    Code,
    /// The text of a file.
    Document,
}

/// What decides the route of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals<'a> {
    /// The message as typed.
    pub text: &'a str,
    /// The kind of the attached text.
    pub selection: SelectionKind,
    /// The route of the response before it in the conversation.
    pub previous: Route,
}

/// Returns the settings of a request on a route with these settings, where the values of the user win. A
/// model that reasons keeps the temperature that its authors recommend.
pub(crate) fn settings_under(route: &RouteSettings, user: &ModelSettings) -> ModelSettings {
    let thinking = user.thinking.or(route.thinking);
    let of_route = route.temperature.filter(|_| thinking != Some(true));
    ModelSettings {
        temperature: user.temperature.or(of_route),
        thinking,
        ..user.clone()
    }
}

/// Returns the route that a command at the start of `text` names: `/translate into German`.
pub fn command(text: &str) -> Option<Route> {
    let name = text.trim_start().strip_prefix('/')?;
    let name = name.split_whitespace().next()?.to_lowercase();
    let name = if name == "summarise" {
        "summarize"
    } else {
        &*name
    };
    Route::named(name)
}

/// Returns the route of a message: that of its command, else the one that its words ask for. A
/// message that asks for nothing else keeps a sticky route of its conversation, unless something new
/// is attached: "and the last line?" is still about the code. A message without words asks for nothing.
///
/// The same signals always give the same route. Takes linear time, far below a millisecond for a
/// typed message.
pub fn route(signals: &Signals<'_>) -> Route {
    if let Some(route) = command(signals.text) {
        return route;
    }
    if signals.text.trim().is_empty() {
        return Route::Chat;
    }
    match classify::classify(signals) {
        Route::Chat
            if signals.selection == SelectionKind::None
                && signals.previous.settings().is_sticky =>
        {
            signals.previous
        }
        route => route,
    }
}

/// Returns the kind of attached texts. Code among other texts does not count.
pub fn selection_kind(attachments: &[AttachedText]) -> SelectionKind {
    let mut texts = attachments.iter().filter(|one| !one.text.trim().is_empty());
    let Some(first) = texts.clone().next() else {
        return SelectionKind::None;
    };
    if texts.all(is_code) {
        return SelectionKind::Code;
    }
    match first.name {
        Some(_) => SelectionKind::Document,
        None => SelectionKind::Text,
    }
}

/// Returns the route of the last message of the user in `path`, which starts at the root of its
/// conversation.
pub fn route_of(path: &[Message], routing: Routing, routes: &Routes) -> Route {
    let route = match routing {
        Routing::Off => Route::Chat,
        Routing::Chosen(route) => route,
        Routing::Automatic => {
            let is_user = |message: &Message| message.role == MessageRole::User;
            let Some(at) = path.iter().rposition(is_user) else {
                return Route::Chat;
            };
            let before = at.checked_sub(1).and_then(|before| path.get(before));
            route(&Signals {
                text: &path[at].text,
                selection: selection_kind(&attached_text::split(&path[at].attachment)),
                previous: before.map_or(Route::Chat, previous_route),
            })
        }
    };
    routes.or_chat(route)
}

/// Returns the route that a stored response was written with.
pub fn previous_route(response: &Message) -> Route {
    stats_of(response).map_or(Route::Chat, |stats| stats.route)
}

/// Extensions of files with programs.
const CODE_EXTENSIONS: [&str; 33] = [
    "bash", "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "jsx", "kt",
    "lua", "m", "php", "pl", "py", "r", "rb", "rs", "scala", "sh", "sql", "svelte", "swift", "ts",
    "tsx", "vue", "zig", "zsh", "mm",
];

/// Starts of lines of programs. Prose that starts like this has no sign of a program.
const CODE_STARTS: [&str; 18] = [
    "#include",
    "import ",
    "from ",
    "def ",
    "class ",
    "fn ",
    "pub ",
    "let ",
    "const ",
    "var ",
    "function ",
    "return",
    "if (",
    "for (",
    "while (",
    "public ",
    "private ",
    "SELECT ",
];

/// Lines of an attached text that are looked at.
const MAX_LINES: usize = 60;

/// Returns true if at least half of the lines look like those of a program.
fn is_code(attached: &AttachedText) -> bool {
    let extension = attached
        .name
        .as_deref()
        .and_then(|name| name.rsplit_once('.'));
    if let Some((_, extension)) = extension {
        return CODE_EXTENSIONS.contains(&&*extension.to_lowercase());
    }
    let lines = attached.text.lines().map(str::trim).take(MAX_LINES);
    let (mut n_lines, mut n_code) = (0, 0);
    for line in lines.filter(|line| !line.is_empty()) {
        n_lines += 1;
        let is_code = line.ends_with(['{', '}', ';'])
            || line.ends_with("):")
            || line.starts_with("```")
            || line.starts_with("//")
            || (CODE_STARTS.iter().any(|start| line.starts_with(start))
                && line.contains(['=', '(', '{', ';', '<', '"']));
        n_code += usize::from(is_code);
    }
    n_code > 0 && 2 * n_code >= n_lines
}

#[cfg(test)]
mod tests;
