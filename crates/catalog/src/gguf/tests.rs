use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::file_error::{Fault, FaultCode};
use crate::test_support::GgufWriter;

fn f32_type() -> TensorType {
    TensorType::from_number(0).unwrap()
}

fn bytes(writer: &GgufWriter) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    bytes
}

/// Returns a small file with an entry of every type and three tensors.
fn sample() -> GgufWriter {
    let mut writer = GgufWriter::new();
    writer
        .raw("u8", 0, &[200])
        .raw("i8", 1, &[200])
        .raw("u16", 2, &60_000u16.to_le_bytes())
        .raw("i16", 3, &(-2i16).to_le_bytes())
        .u32("u32", 4_000_000_000)
        .raw("i32", 5, &(-3i32).to_le_bytes())
        .f32("f32", 0.5)
        .bool("bool", true)
        .string("string", "naïve")
        .strings("strings", &["a", "", "long enough"])
        .raw("u64", 10, &u64::MAX.to_le_bytes())
        .raw("i64", 11, &(-4i64).to_le_bytes())
        .raw("f64", 12, &0.25f64.to_le_bytes())
        .i32s("i32s", &[1, -2, 3])
        .f32s("f32s", &[])
        .tensor("a", &[3], f32_type(), vec![1; 12])
        .tensor(
            "b",
            &[32, 2],
            TensorType::from_number(8).unwrap(),
            vec![2; 68],
        )
        .tensor("c", &[], f32_type(), vec![3; 4]);
    writer
}

#[test]
fn every_type_of_value_is_read_back() {
    let bytes = bytes(&sample());
    let view = Gguf::parse(&bytes).unwrap();
    let get = |key| view.get(key).unwrap();
    assert_eq!(get("u8"), Value::U8(200));
    assert_eq!(get("i8"), Value::I8(-56));
    assert_eq!(get("u16"), Value::U16(60_000));
    assert_eq!(get("i16"), Value::I16(-2));
    assert_eq!(get("u32").as_u64(), Some(4_000_000_000));
    assert_eq!(get("i32"), Value::I32(-3));
    assert_eq!(get("i32").as_u64(), None);
    assert_eq!(get("f32"), Value::F32(0.5));
    assert_eq!(get("bool").as_bool(), Some(true));
    assert_eq!(get("string").as_str(), Some("naïve"));
    assert_eq!(get("u64").as_u64(), Some(u64::MAX));
    assert_eq!(get("i64"), Value::I64(-4));
    assert_eq!(get("f64"), Value::F64(0.25));
    let strings = get("strings").as_array().unwrap();
    let texts: Vec<_> = strings.iter().filter_map(|value| value.as_str()).collect();
    assert_eq!(texts, ["a", "", "long enough"]);
    let numbers = get("i32s").as_array().unwrap();
    assert_eq!(numbers.iter().nth(1), Some(Value::I32(-2)));
    assert!(get("f32s").as_array().unwrap().is_empty());
    assert_eq!(view.entries().count(), 15);
    assert_eq!(view.get("absent"), None);
}

#[test]
fn arrays_nest_up_to_a_limit() {
    let nested = |depth: usize| {
        let mut value = Vec::new();
        for _ in 0..depth {
            value.extend_from_slice(&9u32.to_le_bytes());
            value.extend_from_slice(&1u64.to_le_bytes());
        }
        value.extend_from_slice(&0u32.to_le_bytes());
        value.extend_from_slice(&2u64.to_le_bytes());
        value.extend_from_slice(&[7, 8]);
        let mut writer = GgufWriter::new();
        writer.raw("deep", 9, &value);
        bytes(&writer)
    };
    let bytes = nested(value::MAX_NESTING - 1);
    let view = Gguf::parse(&bytes).unwrap();
    let mut array = view.get("deep").unwrap().as_array().unwrap();
    while let Some(inner) = array.iter().next().and_then(|value| value.as_array()) {
        array = inner;
    }
    assert_eq!(
        array.iter().collect::<Vec<_>>(),
        [Value::U8(7), Value::U8(8)]
    );
    let fault = Gguf::parse(&nested(value::MAX_NESTING)).unwrap_err();
    assert!(fault.to_string().contains("more than 4 deep"), "{fault}");
}

#[test]
fn tensors_are_where_the_file_says() {
    let bytes = bytes(&sample());
    let view = Gguf::parse(&bytes).unwrap();
    let tensors: Vec<_> = view.tensors().collect();
    assert_eq!(tensors.len(), 3);
    assert_eq!((tensors[1].n_bytes, tensors[1].offset), (68, 32));
    assert_eq!((tensors[2].n_elements(), tensors[2].n_axes), (1, 0));
    assert_eq!(view.tensor_bytes(), 12 + 68 + 4);
    for (tensor, expected) in tensors.iter().zip([1u8, 2, 3]) {
        let start = (view.data_offset() + tensor.offset) as usize;
        let data = &bytes[start..start + tensor.n_bytes as usize];
        assert!(data.iter().all(|&byte| byte == expected), "{}", tensor.name);
    }
}

/// Block sizes against the bits per weight that llama.cpp's `quantize` tool prints.
#[test]
fn quantized_types_have_the_published_bits() {
    for (number, name, bits) in [
        (2, "Q4_0", 4.5),
        (8, "Q8_0", 8.5),
        (10, "Q2_K", 2.625),
        (11, "Q3_K", 3.4375),
        (12, "Q4_K", 4.5),
        (13, "Q5_K", 5.5),
        (14, "Q6_K", 6.5625),
        (16, "IQ2_XXS", 2.0625),
        (19, "IQ1_S", 1.5625),
        (23, "IQ4_XS", 4.25),
        (34, "TQ1_0", 1.6875),
        (39, "MXFP4", 4.25),
    ] {
        let kind = TensorType::from_number(number).unwrap();
        let block_bits = kind.block_bytes() as f64 * 8.0;
        assert_eq!(kind.name(), name);
        assert_eq!(block_bits / kind.block_elements() as f64, bits, "{name}");
    }
    assert_eq!(TensorType::from_number(4), None);
}

#[track_caller]
fn check_fault(bytes: &[u8], expected: &str) {
    let fault = Gguf::parse(bytes).unwrap_err().to_string();
    assert!(
        fault.contains(expected),
        "{fault:?} does not say {expected:?}"
    );
}

fn patched(at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = bytes(&sample());
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn each_fault_of_the_head_has_its_own_message() {
    check_fault(b"", "not a GGUF file");
    check_fault(b"GGM", "not a GGUF file");
    check_fault(&patched(0, b"GGML"), "begins with [47, 47, 4d, 4c]");
    check_fault(&patched(4, &1u32.to_le_bytes()), "version 1, which");
    check_fault(&patched(4, &4u32.to_le_bytes()), "version 4 is not known");
    check_fault(
        &patched(4, &3u32.to_be_bytes()),
        "big-endian GGUF file (version 3)",
    );
    check_fault(b"GGUF\x03\0", "cut short: the version");
    check_fault(
        &patched(8, &u64::MAX.to_le_bytes()),
        "18446744073709551615 tensors",
    );
    check_fault(
        &patched(16, &99_999u64.to_le_bytes()),
        "99999 metadata entries",
    );
    // Version 2 has the same layout.
    let view = patched(4, &2u32.to_le_bytes());
    assert_eq!(Gguf::parse(&view).unwrap().tensors().count(), 3);
}

#[test]
fn a_fault_has_a_code_and_the_value_for_its_sentence() {
    let check = |fault: Fault, code, value: &str| {
        assert_eq!((fault.code, &*fault.value), (code, value), "{fault}");
    };
    let version = Gguf::parse(&patched(4, &9u32.to_le_bytes())).unwrap_err();
    check(version, FaultCode::UnsupportedVersion, "9");
    let empty = bytes(&GgufWriter::new());
    let missing = Gguf::parse(&empty).unwrap().facts().unwrap_err();
    check(missing, FaultCode::MissingEntry, "general.architecture");
    let cut = Gguf::parse(&empty[..20]).unwrap_err();
    check(cut, FaultCode::Truncated, "");
}

/// A file that is cut at any byte is reported as cut; only in its first four bytes it is no GGUF
/// file. The padding after the last tensor may be missing.
#[test]
fn a_file_that_is_cut_at_any_byte_is_an_error() {
    let bytes = bytes(&sample());
    let view = Gguf::parse(&bytes).unwrap();
    let last = view.tensors().last().unwrap();
    let needed = (view.data_offset() + last.offset + last.n_bytes) as usize;
    assert!(Gguf::parse(&bytes[..needed]).is_ok());
    for end in 0..needed {
        let fault = Gguf::parse(&bytes[..end]).unwrap_err();
        let is_named = match fault.code {
            FaultCode::WrongFormat => end < 4,
            FaultCode::Truncated => end >= 4,
            // Counts are compared with the bytes that are there.
            _ => fault.to_string().starts_with("says it has"),
        };
        assert!(is_named, "cut at {end}: {fault}");
    }
}

#[test]
fn each_fault_of_the_metadata_has_its_own_message() {
    let with = |change: &dyn Fn(&mut GgufWriter)| {
        let mut writer = GgufWriter::new();
        change(&mut writer);
        bytes(&writer)
    };
    check_fault(
        &with(&|w| {
            w.u32("", 1);
        }),
        "metadata entry 0 has a bad name: it is empty",
    );
    let long = "k".repeat(65_536);
    check_fault(
        &with(&|w| {
            w.u32(&long, 1);
        }),
        "it is too long",
    );
    check_fault(
        &with(&|w| {
            w.u32("k", 1).u32("k", 2);
        }),
        "entry \"k\" is there twice",
    );
    check_fault(
        &with(&|w| {
            w.raw("k", 13, &[0]);
        }),
        "entry \"k\" has the unknown type 13",
    );
    check_fault(
        &with(&|w| {
            w.raw("k", 8, &u64::MAX.to_le_bytes());
        }),
        "cut short",
    );
    let mut huge = 8u32.to_le_bytes().to_vec();
    huge.extend_from_slice(&u64::MAX.to_le_bytes());
    check_fault(
        &with(&|w| {
            w.raw("k", 9, &huge);
        }),
        "cut short",
    );
    for value in [0, 48] {
        let bytes = with(&|w| {
            w.u32("general.alignment", value);
        });
        check_fault(&bytes, &format!("general.alignment is {value}"));
    }
    let bytes = with(&|w| {
        w.string("general.alignment", "32");
    });
    check_fault(&bytes, "general.alignment is a value of another type");
}

#[test]
fn each_fault_of_the_tensors_has_its_own_message() {
    let with = |name: &str, shape: &[u64], kind: u32, n_bytes: usize| {
        let mut writer = GgufWriter::new();
        let kind = TensorType::from_number(kind).unwrap();
        writer
            .tensor("first", &[8], f32_type(), vec![0; 32])
            .tensor(name, shape, kind, vec![0; n_bytes]);
        bytes(&writer)
    };
    check_fault(
        &with("first", &[1], 0, 4),
        "tensor \"first\" is there twice",
    );
    check_fault(
        &with(&"n".repeat(64), &[1], 0, 4),
        "tensor 1 has a bad name: it is too long",
    );
    check_fault(&with("t", &[1; 5], 0, 4), "5 axes");
    check_fault(
        &with("t", &[33], 8, 34),
        "not a multiple of 32, the block of Q8_0",
    );
    check_fault(
        &with("t", &[1 << 40, 1 << 40], 0, 4),
        "more elements than can be counted",
    );
    check_fault(&with("t", &[1000], 0, 4), "tensor \"t\" ends at byte");
    let good = with("t", &[8], 0, 32);
    Gguf::parse(&good).unwrap();
    check_fault(&good[..good.len() - 1], "tensor \"t\" ends at byte");
    // The last tensor's offset is the last number before the padding, after its type.
    let offset_at = 24 + (8 + 5 + 4 + 8 + 4 + 8) + (8 + 1 + 4 + 8 + 4);
    let with_offset = |offset: u64| {
        let mut bytes = good.clone();
        bytes[offset_at..offset_at + 8].copy_from_slice(&offset.to_le_bytes());
        bytes
    };
    check_fault(&with_offset(0), "\"first\" and \"t\" overlap");
    check_fault(
        &with_offset(31),
        "begins at 31, which is not a multiple of 32",
    );
    check_fault(
        &with_offset(u64::MAX - 31),
        "ends at byte 18446744073709551615",
    );
    let mut bytes = good;
    bytes[offset_at - 4..offset_at].copy_from_slice(&31u32.to_le_bytes());
    check_fault(&bytes, "tensor \"t\" has the unknown type 31");
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.gguf");
    let message = GgufFile::open(&missing).unwrap_err().to_string();
    assert!(message.contains("missing.gguf"), "{message}");
    let message = GgufFile::open(folder.path()).unwrap_err().to_string();
    assert!(message.contains("is a folder"), "{message}");
    let empty = folder.path().join("empty.gguf");
    fs::write(&empty, b"").unwrap();
    let message = GgufFile::open(&empty).unwrap_err().to_string();
    assert!(message.contains("empty.gguf: not a GGUF file"), "{message}");
}

fn write_part(folder: &Path, name: &str, index: u32, count: u32, tensors: &[&str]) {
    let mut writer = GgufWriter::new();
    writer
        .raw("split.no", 2, &(index as u16).to_le_bytes())
        .raw("split.count", 2, &(count as u16).to_le_bytes())
        .raw("split.tensors.count", 5, &3i32.to_le_bytes());
    for name in tensors {
        writer.tensor(name, &[1], f32_type(), vec![0; 4]);
    }
    fs::write(folder.join(name), bytes(&writer)).unwrap();
}

#[test]
fn a_split_model_is_opened_by_any_of_its_parts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_part(folder, "m-00001-of-00002.gguf", 0, 2, &["a"]);
    write_part(folder, "m-00002-of-00002.gguf", 1, 2, &["b", "c"]);
    for name in ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"] {
        let model = GgufModel::open(&folder.join(name)).unwrap();
        let mut names = Vec::new();
        model
            .for_each_tensor(|tensor| names.push(tensor.name.to_owned()))
            .unwrap();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(model.first().path().ends_with("m-00001-of-00002.gguf"));
    }
}

#[test]
fn an_inconsistent_split_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |name: &str| GgufModel::open(&folder.join(name)).unwrap_err().to_string();
    write_part(folder, "odd.gguf", 0, 2, &["a"]);
    assert!(refused("odd.gguf").contains("must end in -00001-of-00002.gguf"));
    write_part(folder, "m-00001-of-00002.gguf", 0, 2, &["a"]);
    assert!(refused("m-00001-of-00002.gguf").contains("m-00002-of-00002.gguf"));
    write_part(folder, "m-00002-of-00002.gguf", 0, 2, &["b", "c"]);
    assert!(refused("m-00001-of-00002.gguf").contains("but its name says 2 of 2"));
    write_part(folder, "m-00002-of-00002.gguf", 1, 2, &["b"]);
    assert!(refused("m-00001-of-00002.gguf").contains("have 2 tensors, but must have 3"));
    write_part(folder, "n-00001-of-00002.gguf", 7, 2, &["a"]);
    assert!(refused("n-00001-of-00002.gguf").contains("part 8 of 2"));
}

/// Calls every method of a view.
fn exercise(bytes: &[u8]) {
    let Ok(view) = Gguf::parse(bytes) else { return };
    fn walk(value: Value<'_>) {
        if let Some(array) = value.as_array() {
            array.iter().for_each(walk);
        }
    }
    view.entries().for_each(|(_, value)| walk(value));
    assert_eq!(view.tensors().count() as u64, view.n_tensors());
    for tensor in view.tensors() {
        assert!(view.data_offset() + tensor.offset + tensor.n_bytes <= bytes.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_files_never_panic(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = bytes(&sample());
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        exercise(&bytes);
    }

    #[test]
    fn wrong_numbers_never_panic(place in any::<prop::sample::Index>(), shift in 0u32..64) {
        let mut bytes = bytes(&sample());
        let place = place.index(bytes.len() - 8);
        bytes[place..place + 8].copy_from_slice(&(u64::MAX >> shift).to_le_bytes());
        exercise(&bytes);
    }
}
