//! Models of the fixtures, for tests inside the crate.

use std::fs;
use std::path::Path;
use std::rc::Rc;

use mlx_rs::{Device, Dtype, ops};
use tempfile::TempDir;
use transom_engine::{JobControl, Limits, ModelSource};

use crate::device::dense_limit_bytes;
use crate::draft::{self, DraftModel};
use crate::linear::Matrix;
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

/// Returns an embedding that MLX accepts into its graph but cannot compute on a CPU.
pub(crate) fn failing_embedding() -> Matrix {
    let half = ops::ones::<f32>(&[32, 32]).expect("MLX accepts it");
    let half = half.as_dtype(Dtype::Float16).expect("MLX accepts it");
    let mask = ops::ones::<bool>(&[1, 1]).expect("MLX accepts it");
    let product =
        ops::block_masked_mm(&half, &half, 32, &mask, None, None).expect("MLX accepts it");
    let table = ops::ones::<f32>(&[272, 64]).expect("MLX accepts it");
    let table = table
        .add(product.sum(None).expect("MLX accepts it"))
        .expect("MLX accepts it");
    Matrix::Dense(table)
}
