//! What the test double does, with the reference engine as the one that it wraps.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod answers;
mod lifecycle;
mod shapes;
mod work;

use ciphermill_conformance::{Options, check_suite};
use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Mac, Mode};
use ciphermill_contract::{Capability, Cost, Engine, EngineKind, Suite};
use ciphermill_fault::Script;
use ciphermill_reference::Reference;

use work::engine;

#[test]
fn a_healthy_double_keeps_the_contract() {
    let double = engine(Script::healthy());
    let suites = [
        Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Cbc),
        Suite::Aead(Aead::AesGcm(AesSize::Aes128)),
        Suite::Digest(Digest::Sha256),
        Suite::Mac(Mac::Hmac(Digest::Sha1)),
    ];
    for suite in suites {
        let options = Options { symmetric_cases_max: 50, ..Options::default() };
        check_suite(&double, Some(&Reference::new()), suite, &options).assert_clean();
    }
    assert!(double.handle().batches() > 0);
    assert_eq!(double.handle().injected(), 0);
}

#[test]
fn it_shows_what_the_inner_engine_shows() {
    let inner = Reference::new();
    let double = engine(Script::healthy());
    assert_eq!((double.info().name, double.info().kind), ("double", EngineKind::Fault));
    assert_eq!(double.info().version, inner.info().version);
    assert_eq!(double.info().parallelism, inner.info().parallelism);
    assert_eq!(double.info().kernels, inner.info().kernels);
    let shape = |capability: &Capability| (capability.suites, capability.directions, capability.lanes);
    let shapes = |engine: &dyn Engine| engine.capabilities().iter().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(&double), shapes(&inner));
    let priors = |engine: &dyn Engine| engine.capabilities().iter().map(|own| own.prior).collect::<Vec<_>>();
    assert_eq!(priors(&double), priors(&inner));

    let posing = engine(Script::healthy()).with_kind(EngineKind::Gpu).with_prior(Cost::new(1.0, 2.0, 3.0));
    assert_eq!(posing.info().kind, EngineKind::Gpu);
    assert_eq!(shapes(&posing), shapes(&inner));
    assert!(priors(&posing).iter().all(|prior| *prior == Cost::new(1.0, 2.0, 3.0)));
    assert!(format!("{posing:?}").contains("\"double\""));
}
