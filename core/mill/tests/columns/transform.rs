//! Values opened under one suite and key and sealed under another: what both halves one after the other give, and nothing of what
//! lies between them.

use ciphermill::{KeyPolicy, Mill, TransformReport};
use ciphermill_contract::capability::Directions;
use ciphermill_contract::columns::{
    AadColumn, ColumnData, Extents, IvColumn, KeyColumn, TagColumn, TransformBatch, TransformHalf, TransformTags,
};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::suite::Aead;
use ciphermill_contract::{ColumnBatch, ColumnStatus, Direction, Error, KeyId, OpStatus, Reason, Result, Suite};
use ciphermill_fault::{Fault, Script};

use super::{EngineKind, faulty, import, mill, reference, suite};

const CANARY: &[u8] = b"a value that must not be seen";

/// A suite with where its nonces and tags lie, as tables have them.
#[derive(Clone, Copy)]
struct Form {
    suite: Suite,
    iv: usize,
    tags: TransformTags,
}

impl Form {
    fn of(name: &str) -> Form {
        let suite = suite(name);
        let tag = suite.default_tag_len();
        let tags = match suite {
            Suite::Aead(Aead::AesSiv(_)) => TransformTags::Before { len: tag },
            _ if tag == 0 => TransformTags::None,
            _ => TransformTags::After { len: tag },
        };
        let iv = if suite.iv_len().min == 0 { 0 } else { suite.default_iv_len() };
        Form { suite, iv, tags }
    }

    fn overhead(self) -> usize {
        let tag = match self.tags {
            TransformTags::None => 0,
            TransformTags::Before { len } | TransformTags::After { len } => len,
        };
        if self.suite.transforms() { self.iv + tag } else { 0 }
    }

    fn ivs<'a>(self, draws: bool) -> IvColumn<'a> {
        match (self.iv, draws) {
            (0, _) => IvColumn::None,
            (len, true) => IvColumn::Drawn { len },
            (len, false) => IvColumn::Inline { len },
        }
    }

    fn aad<'a>(self, aad: &'a [u8]) -> AadColumn<'a> {
        match self.suite {
            Suite::Aead(_) | Suite::Fpe(_) => AadColumn::One(aad),
            _ => AadColumn::None,
        }
    }

    fn half<'a>(self, key: KeyId, aad: &'a [u8], draws: bool) -> TransformHalf<'a> {
        let (ivs, aad) = (self.ivs(draws), self.aad(aad));
        TransformHalf { ivs, aad, tags: self.tags, ..TransformHalf::new(self.suite, key) }
    }

    fn tag_column<'a>(self) -> TagColumn<'a> {
        match self.tags {
            TransformTags::None => TagColumn::None,
            TransformTags::Before { len } => TagColumn::Before { len },
            TransformTags::After { len } => TagColumn::After { len },
        }
    }
}

/// Values with their offsets.
#[derive(Clone, Default)]
struct Values {
    bytes: Vec<u8>,
    offsets: Vec<i64>,
}

impl Values {
    /// Of these lengths.
    fn of(lens: impl IntoIterator<Item = usize>) -> Values {
        let mut offsets = vec![0i64];
        offsets.extend(lens.into_iter().scan(0, |end, len| {
            *end += len as i64;
            Some(*end)
        }));
        Values { bytes: vec![0; offsets[offsets.len() - 1] as usize], offsets }
    }

    fn lens(&self) -> impl Iterator<Item = usize> {
        self.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize)
    }

    fn longer(&self, by: usize) -> Values {
        Values::of(self.lens().map(|len| len + by))
    }

    fn extents(&self) -> Extents<'_> {
        Extents::LargeOffsets(&self.offsets)
    }

    fn at(&self, index: usize) -> &[u8] {
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

/// Numerals of FF1, blocks of ciphers, anything else of any length.
fn clear_values(forms: [Form; 2], count: usize) -> Values {
    let is_fpe = forms.iter().any(|form| matches!(form.suite, Suite::Fpe(_)));
    let needs_blocks =
        forms.iter().any(|form| form.suite.block_len() > 1 && form.suite.input_len(Direction::Encrypt).step > 1);
    let lens = (0..count).map(|index| match (is_fpe, needs_blocks) {
        (true, false) => 12 + index % 5 * 2,
        (true, true) => 16 * (index % 3 + 1),
        (_, true) => 16 * (index % 9 + 1),
        _ if index == count / 2 => 70_000,
        _ => index * 7 % 300,
    });
    let mut values = Values::of(lens);
    for (at, byte) in values.bytes.iter_mut().enumerate() {
        *byte = if !is_fpe {
            at as u8
        } else if at % 2 == 0 {
            (at / 2 % 10) as u8
        } else {
            0
        };
    }
    values
}

fn seal(mill: &Mill, form: Form, key: KeyId, clear: &Values, aad: &[u8]) -> Values {
    let mut sealed = clear.longer(form.overhead());
    let mut statuses = vec![ColumnStatus::PENDING; clear.offsets.len() - 1];
    let data = ColumnData::Separate {
        input: &clear.bytes,
        inputs: clear.extents(),
        output: &mut sealed.bytes,
        outputs: Extents::LargeOffsets(&sealed.offsets),
    };
    let batch = ColumnBatch::new(form.suite, Direction::Encrypt, data, &mut statuses).with_key(key);
    mill.run_columns(batch.with_ivs(form.ivs(true)).with_aad(form.aad(aad)).with_tags(form.tag_column()))
        .expect("runs");
    assert!(statuses.iter().all(|status| status.is_done()));
    sealed
}

fn open(mill: &Mill, form: Form, key: KeyId, sealed: &Values, aad: &[u8]) -> (Values, Vec<ColumnStatus>) {
    let mut clear = Values::of(sealed.lens().map(|len| len - form.overhead()));
    let mut statuses = vec![ColumnStatus::PENDING; sealed.offsets.len() - 1];
    let data = ColumnData::Separate {
        input: &sealed.bytes,
        inputs: sealed.extents(),
        output: &mut clear.bytes,
        outputs: Extents::LargeOffsets(&clear.offsets),
    };
    let batch = ColumnBatch::new(form.suite, Direction::Decrypt, data, &mut statuses).with_key(key);
    mill.run_columns(batch.with_ivs(form.ivs(false)).with_aad(form.aad(aad)).with_tags(form.tag_column()))
        .expect("runs");
    (clear, statuses)
}

/// Moves values from one form to the other.
fn transform(
    mill: &Mill,
    (source, old): (Form, KeyId),
    (target, new): (Form, KeyId),
    input: &Values,
    output: &mut Values,
    statuses: &mut [ColumnStatus],
) -> Result<TransformReport> {
    mill.transform(TransformBatch {
        source: source.half(old, b"old", false),
        target: target.half(new, b"new", true),
        input: &input.bytes,
        inputs: input.extents(),
        output: &mut output.bytes,
        outputs: Extents::LargeOffsets(&output.offsets),
        statuses,
    })
}

fn key_for(mill: &Mill, form: Form) -> KeyId {
    import(mill, form.suite.default_key_len(), KeyPolicy::default())
}

#[test]
fn a_transform_is_what_both_halves_are() {
    let names = [
        "aes-256-siv",
        "aes-256-gcm-siv",
        "aes-128-gcm",
        "chacha20-poly1305",
        "aes-256-ctr",
        "aes-128-cbc",
        "ff1-aes-256-radix-10",
    ];
    let mill = mill([reference()], 0);
    for [from, to] in names.iter().flat_map(|from| names.map(|to| [*from, to])) {
        let forms = [Form::of(from), Form::of(to)];
        // Numerals are values of any suite, but others are no numerals.
        if matches!(forms[1].suite, Suite::Fpe(_)) && !matches!(forms[0].suite, Suite::Fpe(_)) {
            continue;
        }
        let keys = forms.map(|form| key_for(&mill, form));
        let count = if from == to { 5000 } else { 100 };
        let clear = clear_values(forms, count);
        let stored = seal(&mill, forms[0], keys[0], &clear, b"old");
        let mut moved = clear.longer(forms[1].overhead());
        let mut statuses = vec![ColumnStatus::PENDING; count];
        statuses[7] = ColumnStatus::LEFT_OUT;
        let report =
            transform(&mill, (forms[0], keys[0]), (forms[1], keys[1]), &stored, &mut moved, &mut statuses).unwrap();
        assert_eq!((report.done, report.failed), (count - 1, 0), "{from} to {to}");
        assert!(moved.at(7).iter().all(|byte| *byte == 0), "what is left out is not written");
        let (again, statuses) = open(&mill, forms[1], keys[1], &moved, b"new");
        for index in (0..count).filter(|index| *index != 7) {
            assert!(statuses[index].is_done(), "{from} to {to}, {index}: {:?}", statuses[index]);
            assert_eq!(again.at(index), clear.at(index), "{from} to {to}, {index}");
        }
    }
}

#[test]
fn values_become_tokens() {
    let mill = mill([reference()], 0);
    let [siv, token] = ["aes-256-siv", "hmac-sha256"].map(Form::of);
    let keys = [siv, token].map(|form| key_for(&mill, form));
    let clear = clear_values([siv, siv], 50);
    let stored = seal(&mill, siv, keys[0], &clear, b"old");
    let (mut tokens, mut wanted) = (Values::of([20; 50]), vec![0; 50 * 20]);
    let mut statuses = vec![ColumnStatus::PENDING; 50];
    let mut batch = TransformBatch {
        source: siv.half(keys[0], b"old", false),
        target: TransformHalf { tags: TransformTags::After { len: 20 }, ..TransformHalf::new(token.suite, keys[1]) },
        input: &stored.bytes,
        inputs: stored.extents(),
        output: &mut tokens.bytes,
        outputs: Extents::Strided { len: 20, stride: 20 },
        statuses: &mut statuses,
    };
    batch.outputs = Extents::Strided { len: 20, stride: 24 };
    assert!(matches!(batch.check(), Err(Error::Misuse(misuse)) if misuse.reason == Reason::ColumnBuffers));
    batch.outputs = Extents::Strided { len: 20, stride: 20 };
    assert_eq!(mill.transform(batch).unwrap().done, 50);
    let mut statuses = vec![ColumnStatus::PENDING; 50];
    let data = ColumnData::Input { input: &clear.bytes, inputs: clear.extents() };
    let batch = ColumnBatch::new(token.suite, Direction::Encrypt, data, &mut statuses).with_key(keys[1]);
    mill.run_columns(batch.with_tags(TagColumn::Written { bytes: &mut wanted, len: 20 })).unwrap();
    assert_eq!(tokens.bytes, wanted);
}

#[test]
fn each_value_may_have_its_own_keys_ivs_and_additional_data() {
    let mill = mill([reference()], 0);
    let form = Form::of("aes-256-gcm");
    let count = 5000;
    let (old, new): (Vec<KeyId>, Vec<KeyId>) =
        (0..count).map(|at| [at % 7, at % 5].map(|kind| mill_key(&mill, kind as u8))).map(|[a, b]| (a, b)).unzip();
    let clear = Values { bytes: (0..count * 20).map(|at| at as u8).collect(), ..Values::of(vec![20; count]) };
    let (nonces, aads): (Vec<u8>, Vec<u8>) =
        ((0..count * 12).map(|at| (at / 12) as u8 ^ at as u8).collect(), vec![5; count * 8]);
    let aad = AadColumn::Each { bytes: &aads, extents: Extents::Strided { len: 5, stride: 8 } };
    let run = |direction, key: &[KeyId], input: &Values, output: &mut Values| {
        let mut statuses = vec![ColumnStatus::PENDING; count];
        let data = ColumnData::Separate {
            input: &input.bytes,
            inputs: input.extents(),
            output: &mut output.bytes,
            outputs: Extents::LargeOffsets(&output.offsets),
        };
        let batch = ColumnBatch::new(form.suite, direction, data, &mut statuses).with_keys(KeyColumn::Each(key));
        let batch = batch.with_ivs(IvColumn::Each { bytes: &nonces, len: 12 }).with_aad(aad);
        mill.run_columns(batch.with_tags(TagColumn::After { len: 16 })).unwrap();
        assert!(statuses.iter().all(|status| status.is_done()));
    };
    let (mut stored, mut moved, mut again) = (clear.longer(16), clear.longer(16), clear.longer(0));
    run(Direction::Encrypt, &old, &clear, &mut stored);
    let mut statuses = vec![ColumnStatus::PENDING; count];
    let half = |keys| TransformHalf {
        suite: form.suite,
        keys: KeyColumn::Each(keys),
        ivs: IvColumn::Each { bytes: &nonces, len: 12 },
        aad,
        tags: TransformTags::After { len: 16 },
    };
    let batch = TransformBatch {
        source: half(&old),
        target: half(&new),
        input: &stored.bytes,
        inputs: Extents::Strided { len: 36, stride: 36 },
        output: &mut moved.bytes,
        outputs: Extents::Strided { len: 36, stride: 36 },
        statuses: &mut statuses,
    };
    assert_eq!(mill.transform(batch).unwrap().done, count);
    run(Direction::Decrypt, &new, &moved, &mut again);
    assert_eq!(again.bytes, clear.bytes);
}

fn mill_key(mill: &Mill, kind: u8) -> KeyId {
    let bytes = [kind; 32];
    mill.keys().import(ciphermill_contract::KeyMaterial::secret(&bytes), KeyPolicy::default()).expect("room")
}

#[test]
fn counters_go_on_from_chunk_to_chunk() {
    let mill = mill([reference()], 0);
    let [siv, ctr] = ["aes-256-siv", "aes-256-ctr"].map(Form::of);
    let keys = [siv, ctr].map(|form| key_for(&mill, form));
    let count = 10_000;
    let clear = Values { bytes: (0..count * 8).map(|at| at as u8).collect(), ..Values::of(vec![8; count]) };
    let stored = seal(&mill, siv, keys[0], &clear, b"old");
    let (mut moved, mut wanted) = (clear.longer(0), clear.longer(0));
    let mut statuses = vec![ColumnStatus::PENDING; count];
    let first = [7; 16];
    let target = TransformHalf { ivs: IvColumn::Counter(&first), ..TransformHalf::new(ctr.suite, keys[1]) };
    let batch = TransformBatch {
        source: siv.half(keys[0], b"old", false),
        target,
        input: &stored.bytes,
        inputs: stored.extents(),
        output: &mut moved.bytes,
        outputs: Extents::Strided { len: 8, stride: 8 },
        statuses: &mut statuses,
    };
    mill.transform(batch).unwrap();
    let data = ColumnData::Separate {
        input: &clear.bytes,
        inputs: clear.extents(),
        output: &mut wanted.bytes,
        outputs: Extents::LargeOffsets(&wanted.offsets),
    };
    let mut statuses = vec![ColumnStatus::PENDING; count];
    let whole = ColumnBatch::new(ctr.suite, Direction::Encrypt, data, &mut statuses).with_key(keys[1]);
    mill.run_columns(whole.with_ivs(IvColumn::Counter(&first))).unwrap();
    assert_eq!(moved.bytes, wanted.bytes);
}

#[test]
fn what_does_not_open_writes_nothing() {
    let mill = mill([reference()], 0);
    let form = Form::of("aes-256-gcm-siv");
    let keys = [form, form].map(|form| key_for(&mill, form));
    let count = 600;
    let mut clear = Values::of(vec![CANARY.len(); count]);
    clear.bytes.chunks_mut(CANARY.len()).for_each(|value| value.copy_from_slice(CANARY));
    let mut stored = seal(&mill, form, keys[0], &clear, b"old");
    let bad = [0, 5, 299, 599];
    for index in bad {
        stored.bytes[stored.offsets[index] as usize + 20] ^= 1;
    }
    let mut moved = clear.longer(form.overhead());
    moved.bytes.fill(0xee);
    let mut statuses = vec![ColumnStatus::PENDING; count];
    let report = transform(&mill, (form, keys[0]), (form, keys[1]), &stored, &mut moved, &mut statuses).unwrap();
    assert_eq!((report.done, report.failed), (count - bad.len(), bad.len()));
    for index in bad {
        assert_eq!(statuses[index], ColumnStatus::AUTH_FAILED);
        assert!(moved.at(index).iter().all(|byte| *byte == 0xee), "{index}");
    }
    assert!(!moved.bytes.windows(CANARY.len()).any(|bytes| bytes == CANARY));
    let (again, statuses) = open(&mill, form, keys[1], &moved, b"new");
    let good = (0..count).filter(|index| !bad.contains(index));
    assert!(good.into_iter().all(|index| statuses[index].is_done() && again.at(index) == CANARY));
}

/// Every combination of what both keys allow, against the rule in other words.
#[test]
fn policy_decides_over_the_pair() {
    let mill = mill([reference()], 0);
    let form = Form::of("aes-256-siv");
    let clear = clear_values([form, form], 10);
    let open_key = key_for(&mill, form);
    let stored = seal(&mill, form, open_key, &clear, b"old");
    let directions = [Directions::NONE, Directions::ENCRYPT, Directions::DECRYPT, Directions::BOTH];
    let mut policies = Vec::new();
    for group in [None, Some("a"), Some("b")] {
        for (directions, exportable) in
            directions.iter().flat_map(|directions| [(*directions, false), (*directions, true)])
        {
            let policy = KeyPolicy::default().directions(directions).exportable(exportable);
            policies.push(group.map_or(policy.clone(), |group| policy.transform(group)));
        }
    }
    let (mut allowed, mut by_group) = (0, 0);
    for (old, new) in policies.iter().flat_map(|old| policies.iter().map(move |new| (old, new))) {
        let may = |policy: &KeyPolicy, direction| policy.directions.contains(direction);
        let both_anyway = may(old, Direction::Decrypt) && may(new, Direction::Encrypt);
        let reads_more = !may(old, Direction::Decrypt) && (may(new, Direction::Decrypt) || new.exportable);
        let writes_more = !may(new, Direction::Encrypt) && (may(old, Direction::Encrypt) || old.exportable);
        let one_group = old.transform.is_some() && old.transform == new.transform;
        let wanted = both_anyway || one_group && !reads_more && !writes_more;
        let keys = [old, new].map(|policy| import(&mill, 64, policy.clone()));
        let mut moved = clear.longer(form.overhead());
        let mut statuses = vec![ColumnStatus::PENDING; 10];
        let report = transform(&mill, (form, keys[0]), (form, keys[1]), &stored, &mut moved, &mut statuses).unwrap();
        assert_eq!(report.done == 10, wanted, "{old:?} to {new:?}");
        if !wanted {
            let refused = ColumnStatus::from(OpStatus::Refused(Reason::KeyDirection));
            assert!(statuses.iter().all(|status| *status == refused) && moved.bytes.iter().all(|byte| *byte == 0));
        }
        allowed += usize::from(wanted);
        by_group += usize::from(wanted && !both_anyway);
        // Alone, each half stays what its policy says.
        if !may(old, Direction::Decrypt) {
            let (_, statuses) = open(&mill, form, keys[0], &stored, b"old");
            assert!(statuses.iter().all(|status| !status.is_done()));
        }
    }
    assert!(allowed > by_group && by_group > 10, "{allowed} {by_group}");
}

#[test]
fn budgets_expiry_and_unknown_keys_hold_for_both_halves() {
    let mill = mill([reference()], 0);
    let form = Form::of("aes-256-siv");
    let clear = clear_values([form, form], 20);
    let stored = seal(&mill, form, key_for(&mill, form), &clear, b"old");
    let gone = key_for(&mill, form);
    mill.keys().destroy(gone).unwrap();
    let free = KeyPolicy::default();
    let refused = |reason| ColumnStatus::from(OpStatus::Refused(reason));
    let other = KeyPolicy::only(suite("aes-128-gcm"));
    for (old, new, done, reason) in [
        (free.clone().operations_max(8), free.clone(), 8, Reason::KeyBudget),
        (free.clone(), free.clone().operations_max(8), 8, Reason::KeyBudget),
        (free.clone().expires_unix_s(1), free.clone(), 0, Reason::KeyExpired),
        (free.clone(), free.clone().expires_unix_s(1), 0, Reason::KeyExpired),
        (other.clone(), free.clone(), 0, Reason::KeySuite),
        (free.clone(), other, 0, Reason::KeySuite),
    ] {
        let keys = [old, new].map(|policy| import(&mill, 64, policy));
        let mut moved = clear.longer(form.overhead());
        let mut statuses = vec![ColumnStatus::PENDING; 20];
        let report = transform(&mill, (form, keys[0]), (form, keys[1]), &stored, &mut moved, &mut statuses).unwrap();
        assert_eq!((report.done, report.failed), (done, 20 - done), "{reason}");
        assert!(statuses[done..].iter().all(|status| *status == refused(reason)), "{statuses:?}");
        assert!(moved.bytes[moved.offsets[done] as usize..].iter().all(|byte| *byte == 0));
    }
    for keys in [[gone, import(&mill, 64, free.clone())], [import(&mill, 64, free), gone]] {
        let mut moved = clear.longer(form.overhead());
        let mut statuses = vec![ColumnStatus::PENDING; 20];
        transform(&mill, (form, keys[0]), (form, keys[1]), &stored, &mut moved, &mut statuses).unwrap();
        assert!(statuses.iter().all(|status| *status == refused(Reason::KeyUnknown)), "{statuses:?}");
    }
}

#[test]
fn what_an_engine_fails_another_does() {
    let (mill, handle) = faulty(Script::always(Fault::Panic), EngineKind::Lanes, 0);
    let form = Form::of("aes-256-siv");
    let keys = [form, form].map(|form| key_for(&mill, form));
    let clear = clear_values([form, form], 100);
    let stored = seal(&mill, form, keys[0], &clear, b"old");
    let mut moved = clear.longer(form.overhead());
    let mut statuses = vec![ColumnStatus::PENDING; 100];
    let report = transform(&mill, (form, keys[0]), (form, keys[1]), &stored, &mut moved, &mut statuses).unwrap();
    assert_eq!((report.done, report.failed), (100, 0));
    assert!(handle.injected() > 0);
    assert_eq!(open(&mill, form, keys[1], &moved, b"new").0.bytes, clear.bytes);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let mill = mill([reference()], 0);
    let form = Form::of("aes-256-siv");
    let keys = [form, form].map(|form| key_for(&mill, form));
    let input = Values { bytes: vec![1; 60], offsets: vec![0, 20, 40, 60] };
    type Change = fn(&mut TransformBatch<'_>);
    let cases: [(&str, Change, usize, Reason); 8] = [
        ("short", |batch| batch.inputs = Extents::LargeOffsets(&[0, 20, 35, 60]), 1, Reason::InputTooShort),
        ("past", |batch| batch.inputs = Extents::LargeOffsets(&[0, 20, 40, 61]), 2, Reason::InputPastEnd),
        ("falls", |batch| batch.inputs = Extents::LargeOffsets(&[20, 0, 40, 60]), 0, Reason::ExtentsDescend),
        ("few", |batch| batch.inputs = Extents::LargeOffsets(&[0, 20, 40]), 0, Reason::ColumnLength),
        ("output", |batch| batch.outputs = Extents::LargeOffsets(&[0, 20, 41, 60]), 1, Reason::OutputLength),
        ("out past", |batch| batch.outputs = Extents::LargeOffsets(&[1, 21, 41, 61]), 2, Reason::OutputPastEnd),
        ("keys", |batch| batch.target.keys = KeyColumn::Each(&[]), 0, Reason::ColumnLength),
        ("done", |batch| batch.statuses[2] = ColumnStatus::DONE, 2, Reason::NotPending),
    ];
    for (name, change, index, reason) in cases {
        let (mut output, mut statuses) = (vec![0xee; 60], [ColumnStatus::PENDING; 3]);
        let mut batch = TransformBatch {
            source: form.half(keys[0], b"old", false),
            target: form.half(keys[1], b"new", true),
            input: &input.bytes,
            inputs: input.extents(),
            output: &mut output,
            outputs: Extents::LargeOffsets(&[0, 20, 40, 60]),
            statuses: &mut statuses,
        };
        change(&mut batch);
        let error = mill.transform(batch).unwrap_err();
        assert!(
            matches!(&error, Error::Misuse(misuse) if misuse.op as usize == index && misuse.reason == reason),
            "{name}: {error}"
        );
        assert!(output.iter().all(|byte| *byte == 0xee), "{name}");
    }
    let mut statuses = [];
    let mut batch = TransformBatch {
        source: form.half(keys[0], b"", false),
        target: form.half(keys[1], b"", true),
        input: &[],
        inputs: Extents::LargeOffsets(&[0]),
        output: &mut [],
        outputs: Extents::LargeOffsets(&[0]),
        statuses: &mut statuses,
    };
    batch.source.suite = suite("sha256");
    assert!(matches!(batch.check(), Err(Error::Refused(Refusal::NoSuchDirection(..)))));
    batch.source.suite = form.suite;
    assert_eq!(mill.transform(batch).unwrap(), TransformReport::default());
}
