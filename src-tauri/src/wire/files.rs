//! Files that people drop on a window or attach to a message.

use serde::{Deserialize, Serialize};
use transom_documents::DocumentProblem;
use transom_store::AttachedText;
use ts_rs::TS;

use super::ModelErrorView;

/// Where the documents to attach come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum FileSource {
    /// A dialog, in which the user chooses them.
    Dialog,
    /// The clipboard.
    Clipboard,
}

/// The state of a document for the composer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DocumentView {
    /// It is being read.
    Reading {
        /// The file's name.
        name: String,
    },
    /// It was read.
    Read {
        /// Its name and its whole text.
        attached: AttachedText,
    },
    /// It can't be attached.
    Failed {
        /// The reason.
        problem: DocumentProblem,
    },
}

/// What dropped files can be used as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum DropKind {
    /// Models to add.
    Model,
    /// Documents to attach.
    Document,
    /// Documents to attach, and files that are left out.
    Mixed,
    /// Nothing.
    Other,
}

/// Why a dropped file was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum DropProblem {
    /// It is not a model.
    NotUsable,
    /// It looks like a model, but is not one that can be used.
    BadModel,
    /// It is a folder without a model.
    NoModel,
    /// Documents were dropped with it, and only these are attached.
    OnlyDocuments,
}

/// Files that are dragged or dropped on a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, TS)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DropView {
    /// Files are being dragged over the window.
    Over {
        /// The name of the first file that can be used, or else of the first one.
        name: String,
        /// What the files can be used as in this window.
        kind: DropKind,
        /// True if several files can be used.
        is_several: bool,
    },
    /// The drag left the window.
    Left,
    /// A model was dropped and added.
    Added {
        /// The model's id.
        id: String,
        /// Its display name.
        name: String,
    },
    /// A file was dropped and can't be used.
    Refused {
        /// The file's name.
        name: String,
        /// Why it can't be used.
        problem: DropProblem,
        /// The error of the model's files, if they are the problem.
        error: Option<ModelErrorView>,
        /// Another error of the model or the system, in English; may be empty.
        reason: String,
    },
}
