//! A page of the app, asked by what a person or a screen reader knows: roles and names.
//!
//! Pages change while they are read, so every question is asked until its answer is there.

use fantoccini::elements::Element;
use fantoccini::wd::WindowHandle;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome, until};

/// Finds elements by role and name in a page; see the file for what it knows.
const ROLES: &str = include_str!("page/roles.js");

/// The key under which WebDriver hands out an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys as WebDriver writes them.
pub mod keys {
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
    /// Tab.
    pub const TAB: &str = "\u{e004}";
}

/// One page in one window.
#[derive(Debug, Clone)]
pub struct Page {
    client: Client,
    handle: WindowHandle,
    name: String,
}

impl Page {
    pub(crate) fn new(client: Client, handle: WindowHandle, name: &str) -> Self {
        Self {
            client,
            handle,
            name: name.to_owned(),
        }
    }

    /// Its name, as `chat`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver's client, with this page chosen.
    pub async fn chosen(&self) -> Outcome<&Client> {
        self.client.switch_to_window(self.handle.clone()).await?;
        Ok(&self.client)
    }

    /// Runs the body of a function in the page. Not held back by the page's content policy.
    pub async fn run(&self, body: &str, args: Vec<Value>) -> Outcome<Value> {
        Ok(self.chosen().await?.execute(body, args).await?)
    }

    /// As [`Page::run`], for a body that calls `done(value)` some time later.
    pub async fn run_until_done(&self, body: &str) -> Outcome<Value> {
        let body = format!("const done = arguments[arguments.length - 1];\n{body}");
        Ok(self.chosen().await?.execute_async(&body, vec![]).await?)
    }

    /// Runs a body that may call `all(role, name)` and `name(element)`.
    async fn ask(&self, body: &str, args: Vec<Value>) -> Outcome<Value> {
        self.run(&format!("{ROLES}\n{body}"), args).await
    }

    /// The first visible element whose role and name match the regular expressions, the role wholly
    /// and the name anywhere and in any case; waits for it.
    ///
    /// # Errors
    /// When it does not come.
    pub async fn by(&self, role: &str, name: &str) -> Outcome<Element> {
        let what = format!("{} shows a {role} named /{name}/", self.name);
        until(&what, async || self.find(role, name).await).await
    }

    /// The same without waiting.
    pub async fn find(&self, role: &str, name: &str) -> Outcome<Option<Element>> {
        let body = "return all(arguments[0], arguments[1])[0] ?? null;";
        let found = self.ask(body, vec![json!(role), json!(name)]).await?;
        self.element(&found)
    }

    fn element(&self, found: &Value) -> Outcome<Option<Element>> {
        let Some(id) = found.get(ELEMENT).and_then(Value::as_str) else {
            return Ok(None);
        };
        let id = fantoccini::elements::ElementRef::from(id.to_owned());
        Ok(Some(Element::from_element_id(self.client.clone(), id)))
    }

    /// The names of all visible elements of a role, in the order of the page.
    pub async fn names(&self, role: &str) -> Outcome<Vec<String>> {
        let body = "return all(arguments[0], '').map(name);";
        let found = self.ask(body, vec![json!(role)]).await?;
        serde_json::from_value(found).map_err(Failure::doing("read names"))
    }

    /// Waits until no visible element of the role has such a name.
    pub async fn until_gone(&self, role: &str, name: &str) -> Outcome {
        let what = format!("{} shows no {role} named /{name}/", self.name);
        until(&what, async || {
            Ok(self.find(role, name).await?.is_none().then_some(()))
        })
        .await
    }

    /// Clicks what [`Page::by`] finds, as soon as it stands still: one that is still being moved
    /// by what comes before it would be missed.
    pub async fn click(&self, role: &str, name: &str) -> Outcome {
        let what = format!("a {role} named /{name}/ in {} can be clicked", self.name);
        let mut before = None;
        until(&what, async || {
            let Some(element) = self.find(role, name).await? else {
                return Err(Failure::Wrong("it is not there".into()));
            };
            if !element.is_enabled().await? {
                return Err(Failure::Wrong("it is disabled".into()));
            }
            let place = Some(element.rectangle().await?);
            if std::mem::replace(&mut before, place) != place {
                return Err(Failure::Wrong("it moves".into()));
            }
            element.click().await?;
            Ok(Some(()))
        })
        .await
    }

    /// Types text into what has the focus, as a person does.
    pub async fn type_text(&self, text: &str) -> Outcome {
        let focused = self.chosen().await?.active_element().await?;
        Ok(focused.send_keys(text).await?)
    }

    /// Role and name of what has the focus, as `textbox: Message`.
    pub async fn focused(&self) -> Outcome<String> {
        let body = "const e = document.activeElement; return e ? `${role(e)}: ${name(e)}` : '';";
        let found = self.ask(body, vec![]).await?;
        Ok(found.as_str().unwrap_or_default().to_owned())
    }

    /// Whether the page's window has the keyboard.
    pub async fn has_keyboard(&self) -> Outcome<bool> {
        let found = self.run("return document.hasFocus();", vec![]).await?;
        Ok(found == json!(true))
    }

    /// The text of the first element that matches; `None` if none does.
    pub async fn text_of(&self, css: &str) -> Outcome<Option<String>> {
        let body = "const e = document.querySelector(arguments[0]); return e && e.innerText;";
        let text = self.run(body, vec![json!(css)]).await?;
        Ok(text.as_str().map(str::to_owned))
    }

    /// The texts of all elements that match.
    pub async fn texts_of(&self, css: &str) -> Outcome<Vec<String>> {
        let body =
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText ?? '');";
        let texts = self.run(body, vec![json!(css)]).await?;
        serde_json::from_value(texts).map_err(Failure::doing("read texts"))
    }

    /// All that the page says.
    pub async fn text(&self) -> Outcome<String> {
        let text = self.run("return document.body.innerText;", vec![]).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the page's text matches a regular expression, whatever the case.
    pub async fn until_says(&self, pattern: &str) -> Outcome<String> {
        let what = format!("{} says /{pattern}/", self.name);
        let body = "const t = document.body.innerText; \
                    return new RegExp(arguments[0], 'i').test(t) ? t : null;";
        until(&what, async || {
            let found = self.run(body, vec![json!(pattern)]).await?;
            Ok(found.as_str().map(str::to_owned))
        })
        .await
    }

    /// The first element that matches a selector; waits for it.
    pub async fn css(&self, css: &str) -> Outcome<Element> {
        let what = format!("{} has {css}", self.name);
        until(&what, async || {
            let client = self.chosen().await?;
            Ok(client.find_all(Locator::Css(css)).await?.into_iter().next())
        })
        .await
    }

    /// A picture of the page as PNG.
    pub async fn picture(&self) -> Outcome<Vec<u8>> {
        Ok(self.chosen().await?.screenshot().await?)
    }
}
