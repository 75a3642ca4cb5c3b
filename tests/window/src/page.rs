//! A page of the app, accessed like a user or a screen reader does: by roles and names.
//!
//! Pages change while they are read, so every lookup is repeated until it succeeds.

use fantoccini::elements::Element;
use fantoccini::wd::WindowHandle;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome, until};

/// Finds elements of a page by role and name; the file documents what it supports.
const ROLES: &str = include_str!("page/roles.js");

/// The key of an element in WebDriver's JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys in WebDriver's notation.
pub mod keys {
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
    /// Tab.
    pub const TAB: &str = "\u{e004}";
}

/// A page in a window.
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

    /// Returns the page's name, such as `chat`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the driver's client, switched to this page.
    pub async fn chosen(&self) -> Outcome<&Client> {
        self.client.switch_to_window(self.handle.clone()).await?;
        Ok(&self.client)
    }

    /// Runs a function body in the page. The page's content security policy does not apply.
    pub async fn run(&self, body: &str, args: Vec<Value>) -> Outcome<Value> {
        Ok(self.chosen().await?.execute(body, args).await?)
    }

    /// Like [`Page::run`], for a body that calls `done(value)` later.
    pub async fn run_until_done(&self, body: &str) -> Outcome<Value> {
        let body = format!("const done = arguments[arguments.length - 1];\n{body}");
        Ok(self.chosen().await?.execute_async(&body, vec![]).await?)
    }

    /// Runs a body that may call `all(role, name)` and `name(element)`.
    async fn ask(&self, body: &str, args: Vec<Value>) -> Outcome<Value> {
        self.run(&format!("{ROLES}\n{body}"), args).await
    }

    /// Waits for the first visible element whose role and name match these regular expressions: the
    /// whole role, and any part of the name, ignoring case.
    ///
    /// # Errors
    /// If there is none.
    pub async fn by(&self, role: &str, name: &str) -> Outcome<Element> {
        let what = format!("{} shows a {role} named /{name}/", self.name);
        until(&what, async || self.find(role, name).await).await
    }

    /// Like [`Page::by`], without waiting.
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

    /// Returns the names of all visible elements with this role, in page order.
    pub async fn names(&self, role: &str) -> Outcome<Vec<String>> {
        let body = "return all(arguments[0], '').map(name);";
        let found = self.ask(body, vec![json!(role)]).await?;
        serde_json::from_value(found).map_err(Failure::doing("read names"))
    }

    /// Waits until no visible element with this role has such a name.
    pub async fn until_gone(&self, role: &str, name: &str) -> Outcome {
        let what = format!("{} shows no {role} named /{name}/", self.name);
        until(&what, async || {
            Ok(self.find(role, name).await?.is_none().then_some(()))
        })
        .await
    }

    /// Clicks the element that [`Page::by`] finds, as soon as it does not move. A moving element
    /// would be missed.
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

    /// Types text into the focused element, like a user.
    pub async fn type_text(&self, text: &str) -> Outcome {
        let focused = self.chosen().await?.active_element().await?;
        Ok(focused.send_keys(text).await?)
    }

    /// Returns role and name of the focused element, such as `textbox: Message`.
    pub async fn focused(&self) -> Outcome<String> {
        let body = "const e = document.activeElement; return e ? `${role(e)}: ${name(e)}` : '';";
        let found = self.ask(body, vec![]).await?;
        Ok(found.as_str().unwrap_or_default().to_owned())
    }

    /// Returns true if the page's window has the keyboard focus.
    pub async fn has_keyboard(&self) -> Outcome<bool> {
        let found = self.run("return document.hasFocus();", vec![]).await?;
        Ok(found == json!(true))
    }

    /// Returns the text of the first matching element, if there is one.
    pub async fn text_of(&self, css: &str) -> Outcome<Option<String>> {
        let body = "const e = document.querySelector(arguments[0]); return e && e.innerText;";
        let text = self.run(body, vec![json!(css)]).await?;
        Ok(text.as_str().map(str::to_owned))
    }

    /// Returns the texts of all matching elements.
    pub async fn texts_of(&self, css: &str) -> Outcome<Vec<String>> {
        let body =
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText ?? '');";
        let texts = self.run(body, vec![json!(css)]).await?;
        serde_json::from_value(texts).map_err(Failure::doing("read texts"))
    }

    /// Returns the page's whole text.
    pub async fn text(&self) -> Outcome<String> {
        let text = self.run("return document.body.innerText;", vec![]).await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until the page's text matches a regular expression, ignoring case.
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

    /// Waits for the first element that matches a selector.
    pub async fn css(&self, css: &str) -> Outcome<Element> {
        let what = format!("{} has {css}", self.name);
        until(&what, async || {
            let client = self.chosen().await?;
            Ok(client.find_all(Locator::Css(css)).await?.into_iter().next())
        })
        .await
    }

    /// Returns a screenshot of the page as PNG.
    pub async fn picture(&self) -> Outcome<Vec<u8>> {
        Ok(self.chosen().await?.screenshot().await?)
    }
}
