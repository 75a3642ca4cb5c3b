use transom_engine::test_support::ScriptedEngine;

use super::*;

fn source() -> ModelSource {
    ModelSource {
        path: "model".into(),
    }
}

struct UnsupportingEngine(&'static str);

impl Engine for UnsupportingEngine {
    fn name(&self) -> &'static str {
        self.0
    }

    fn memory_need(&self, _: &ModelSource, _: &Limits) -> Result<MemoryNeed, EngineError> {
        let feature = match self.0 {
            "one" => UnsupportedFeature::Format,
            _ => UnsupportedFeature::Tokenizer,
        };
        let reason = format!("not for {}", self.0);
        Err(EngineError::unsupported(
            "model/config.json",
            feature,
            reason,
        ))
    }

    fn load(
        &self,
        source: &ModelSource,
        limits: &Limits,
        _: &JobControl,
        _: &mut dyn FnMut(transom_engine::LoadProgress),
    ) -> Result<Box<dyn LoadedModel>, EngineError> {
        self.memory_need(source, limits)?;
        panic!("memory_need has failed")
    }
}

fn need(engines: &[Box<dyn Engine>]) -> Result<MemoryNeed, EngineError> {
    let limits = Limits::default();
    first_supporting(engines, &source(), |engine| {
        engine.memory_need(&source(), &limits)
    })
}

#[test]
fn the_next_engine_is_tried_when_one_does_not_support_the_files() {
    let engines: [Box<dyn Engine>; 2] = [
        Box::new(UnsupportingEngine("one")),
        Box::new(ScriptedEngine::default()),
    ];
    assert!(need(&engines).is_ok());
}

#[test]
fn if_no_engine_supports_the_files_the_error_has_all_reasons() {
    let engines: [Box<dyn Engine>; 2] = [
        Box::new(UnsupportingEngine("one")),
        Box::new(UnsupportingEngine("two")),
    ];
    let error = need(&engines).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model/config.json: one: not for one; two: not for two"
    );
    let is_of_two = |error: &EngineError| {
        matches!(
            error,
            EngineError::Unsupported {
                feature: UnsupportedFeature::Tokenizer,
                ..
            }
        )
    };
    assert!(is_of_two(&error), "{error:?}");
    let error = need(&engines[..1]).unwrap_err();
    assert_eq!(error.to_string(), "model/config.json: not for one");
    assert!(need(&[]).unwrap_err().to_string().contains("no engine"));
}

#[test]
fn a_panic_is_an_error_with_its_message() {
    let error = catch_as_error::<()>("loading", || panic!("out of {}", "luck")).unwrap_err();
    assert_eq!(error.to_string(), "loading: the engine failed: out of luck");
}
