//! Models of the fixtures, for tests inside the crate.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use mlx_rs::{Array, Device, Dtype, ops};
use tempfile::TempDir;
use transom_engine::{JobControl, Limits, ModelSource};

use crate::device::dense_limit_bytes;
use crate::draft::{self, DraftModel};
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::linear::Matrix;
use crate::nn::{Attention, Layers, Step};
use crate::{MlxEngine, MlxModel};

/// Returns a new folder with the model `name` of the fixtures and the tokenizer that they share.
pub(crate) fn assemble(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for source in [
        fixtures.join("models").join(name),
        fixtures.join("tokenizer"),
    ] {
        for entry in fs::read_dir(source).expect("the fixture exists") {
            let path = entry.expect("the fixture can be listed").path();
            let file_name = path.file_name().expect("a file has a name");
            fs::copy(&path, folder.path().join(file_name)).expect("the fixture can be copied");
        }
    }
    folder
}

/// Loads the model `name` of the fixtures on the CPU. It may keep several conversations.
pub(crate) fn load(name: &str) -> MlxModel {
    Device::set_default(&Device::cpu());
    let folder = assemble(name);
    let source = ModelSource {
        path: folder.path().to_owned(),
    };
    let limits = Limits {
        parked_bytes: 64 << 20,
        ..Limits::default()
    };
    // The weights are copied or stay mapped, so the folder may go.
    MlxEngine::new()
        .load_model(&source, &limits, &JobControl::new(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Loads the model `name` of the fixtures, with 8 bits in parked conversations.
pub(crate) fn load_quantizing(name: &str) -> MlxModel {
    let mut model = load(name);
    let transformer = Rc::get_mut(&mut model.transformer);
    transformer
        .expect("no response is generated")
        .quantizes_parked = true;
    model
}

/// Loads the model `name` of the fixtures as a draft model for another one of them.
pub(crate) fn load_draft(name: &str) -> DraftModel {
    let model = load("qwen3-bf16");
    let folder = assemble(name);
    let limits = Limits {
        draft: Some(ModelSource {
            path: folder.path().to_owned(),
        }),
        ..Limits::default()
    };
    let vocabulary = (&model.tokenizer, model.info.vocab_size);
    let loaded = draft::load(vocabulary, &limits, dense_limit_bytes(), &JobControl::new());
    let draft = loaded.expect("the load is not canceled");
    draft.unwrap_or_else(|| panic!("{name} cannot draft")).model
}

/// Returns the embedding of a model that generates no response.
pub(crate) fn embedding_of(model: &mut MlxModel) -> &mut Matrix {
    let transformer = Rc::get_mut(&mut model.transformer);
    &mut transformer.expect("no response is generated").embedding
}

/// What is known about the steps of a model, and lets them fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchedLayers {
    /// How many steps were queued.
    pub(crate) n_steps: Rc<Cell<usize>>,
    /// Whether the device fails in the steps that are queued from now on.
    pub(crate) fails: Rc<Cell<bool>>,
}

/// Watches the steps of a model that generates no response.
pub(crate) fn watch_layers(model: &mut MlxModel) -> WatchedLayers {
    struct Watching {
        watched: WatchedLayers,
        layers: Box<dyn Layers>,
    }

    impl Layers for Watching {
        fn forward(
            &self,
            tokens: &Array,
            x: Array,
            step: &Step<'_>,
            sequences: &mut [&mut [LayerCache]],
        ) -> MlxResult<Array> {
            let WatchedLayers { n_steps, fails } = &self.watched;
            n_steps.set(n_steps.get() + 1);
            let x = match fails.get() {
                true => x.add(failing_number())?,
                false => x,
            };
            self.layers.forward(tokens, x, step, sequences)
        }

        fn new_caches(&self) -> Vec<LayerCache> {
            self.layers.new_caches()
        }
    }

    let watched = WatchedLayers::default();
    let transformer = Rc::get_mut(&mut model.transformer).expect("no response is generated");
    let nothing: Box<dyn Layers> = Box::new(Vec::<Attention>::new());
    let layers = std::mem::replace(&mut transformer.layers, nothing);
    transformer.layers = Box::new(Watching {
        watched: watched.clone(),
        layers,
    });
    watched
}

/// Returns a number that MLX accepts into its graph but cannot compute on a CPU.
fn failing_number() -> Array {
    let half = ops::ones::<f32>(&[32, 32]).expect("MLX accepts it");
    let half = half.as_dtype(Dtype::Float16).expect("MLX accepts it");
    let mask = ops::ones::<bool>(&[1, 1]).expect("MLX accepts it");
    let product =
        ops::block_masked_mm(&half, &half, 32, &mask, None, None).expect("MLX accepts it");
    product.sum(None).expect("MLX accepts it")
}

/// Returns an embedding that cannot be computed on a CPU.
pub(crate) fn failing_embedding() -> Matrix {
    let table = ops::ones::<f32>(&[272, 64]).expect("MLX accepts it");
    Matrix::Dense(table.add(failing_number()).expect("MLX accepts it"))
}
