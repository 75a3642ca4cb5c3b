//! Proposals of a draft model, whatever it has cached.

use super::*;
use crate::MlxModel;
use crate::device::dense_limit_bytes;
use crate::test_support::{assemble, failing_embedding, load as load_model};

const CONTEXT: usize = 300;

/// Loads the model `name` of the fixtures as a draft model for `model`.
fn load_draft(name: &str, model: &MlxModel, vocab_size: usize) -> Option<DraftModel> {
    let folder = assemble(name);
    let limits = Limits {
        context_length: CONTEXT,
        prefill_chunk: 16,
        draft: Some(ModelSource {
            path: folder.path().to_owned(),
        }),
        ..Limits::default()
    };
    let vocabulary = (&model.tokenizer, vocab_size);
    let control = JobControl::new();
    let loaded = load(vocabulary, &limits, dense_limit_bytes(), &control);
    loaded.expect("not canceled").map(|draft| draft.model)
}

/// Returns the `n` likeliest tokens after `tokens`, one after the other.
fn continuation(model: &MlxModel, tokens: &[u32], n: usize) -> Vec<u32> {
    let mut all = tokens.to_vec();
    for _ in 0..n {
        let rows = model.logits(&all).expect("logits");
        let last = rows.last().expect("a row").iter().enumerate();
        let likeliest = last.max_by(|(_, a), (_, b)| a.total_cmp(b));
        all.push(likeliest.expect("there are tokens").0 as u32);
    }
    all.split_off(tokens.len())
}

fn propose(draft: &mut DraftModel, tokens: &[u32], n: usize) -> Vec<u32> {
    let mut proposed = Vec::new();
    draft.propose(tokens, n, &mut proposed);
    proposed
}

#[test]
fn proposals_are_the_likeliest_tokens_also_after_wrong_drafts() {
    for name in ["qwen3-bf16", "mistral-window"] {
        let model = load_model(name);
        let vocab_size = model.info.vocab_size;
        let mut draft = load_draft(name, &model, vocab_size).expect("it can draft");
        let mut tokens: Vec<u32> = (0..90).map(|i| 40 + i * i % 97).collect();
        // Reads no more than a chunk at once, and leaves the last token.
        assert_eq!(draft.n_unread(&tokens), Some(90), "{name}");
        assert_eq!(draft.read(&tokens, 89), 16, "{name}");
        assert_eq!(draft.n_unread(&tokens), Some(74), "{name}");
        while draft.n_unread(&tokens) > Some(4) {
            let n_unread = draft.n_unread(&tokens).expect("it can draft");
            assert!(draft.read(&tokens, n_unread - 1) > 0, "{name}");
        }
        for n_accepted in [4, 0, 2, 3] {
            let proposed = propose(&mut draft, &tokens, 4);
            assert_eq!(proposed, continuation(&model, &tokens, 4), "{name}");
            tokens.extend(&proposed[..n_accepted]);
            // Another token than the proposed one follows.
            tokens.push((proposed[n_accepted.min(3)] + 1) % vocab_size as u32);
            let n_unread = if n_accepted == 4 { 2 } else { 1 };
            assert_eq!(draft.n_unread(&tokens), Some(n_unread), "{name}");
        }
        // An edited message.
        let edited = [&tokens[..tokens.len() - 6], &[70, 71]].concat();
        assert_eq!(draft.n_unread(&edited), Some(2), "{name}");
        let proposed = propose(&mut draft, &edited, 2);
        assert_eq!(proposed, continuation(&model, &edited, 2), "{name}");
        assert!(draft.kv_cache_bytes() > 0);
        assert!(draft.release() > 0);
        assert_eq!(draft.kv_cache_bytes(), 0);
        assert_eq!(draft.n_unread(&edited), Some(edited.len()), "{name}");
    }
}

#[test]
fn a_full_context_is_not_drafted() {
    let model = load_model("qwen3-bf16");
    let vocab_size = model.info.vocab_size;
    let draft = load_draft("qwen3-bf16", &model, vocab_size).expect("it can draft");
    assert_eq!(draft.n_unread(&[1; CONTEXT]), None);
    assert_eq!(draft.n_unread(&[1; CONTEXT - 10]), None);
    assert_eq!(draft.n_unread(&[1; 200]), Some(200));
}

#[test]
fn a_model_with_another_vocabulary_or_with_recurrent_layers_is_left_out() {
    let model = load_model("qwen3-bf16");
    let vocab_size = model.info.vocab_size;
    assert!(load_draft("qwen3-bf16", &model, vocab_size + 1).is_none());
    assert!(load_draft("qwen3-5-text-q8-g64", &model, vocab_size).is_none());
}

#[test]
fn a_failed_step_ends_drafts_and_no_response() {
    let model = load_model("qwen3-bf16");
    let vocab_size = model.info.vocab_size;
    let mut draft = load_draft("qwen3-bf16", &model, vocab_size).expect("it can draft");
    draft.transformer.embedding = failing_embedding();
    assert!(propose(&mut draft, &[64, 65, 66], 2).is_empty());
    assert_eq!(draft.n_unread(&[64, 65, 66]), None);
    assert_eq!(draft.kv_cache_bytes(), 0);
}
