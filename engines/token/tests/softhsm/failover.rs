//! Tokens in processes of their own that die, hang, err, lie and go away while many sign: every caller gets a right signature, in time.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill, RunOptions, TrustPolicy};
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::suite::{AesSize, Curve, KeyPair, Mac};
use ciphermill_contract::{Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, Refusal, Suite};
use ciphermill_reference::Reference;
use ciphermill_token::{Host, Opening, TokenError};
use ciphermill_vectors::known_answers::run_known_answer;

use crate::signing::{MESSAGE, is_valid, op_of, p256, run};
use crate::support::{PIN, Pair, Store, alone, generate, import, import_aes, opening};

/// Callers that sign at the same time.
const CALLERS: usize = 16;

/// A token in a process of its own.
fn hosted(name: &'static str, label: &str) -> Opening {
    let (program, arguments) = (env!("CARGO_BIN_EXE_ciphermill-token-host").into(), Vec::new());
    Opening {
        host: Some(Host { program, arguments }),
        patience: Duration::from_millis(500),
        ..opening(name, label, PIN, false)
    }
}

fn open(opening: Opening) -> Arc<dyn Engine> {
    ciphermill_token::open(opening).expect("opens").engine()
}

/// The module that misbehaves as its file says.
struct Liar {
    module: PathBuf,
    file: PathBuf,
}

impl Liar {
    /// Builds it, and has all processes that are started from now on see its file.
    fn new(store: &Store) -> Liar {
        let (module, file) = (store.folder.join("liar.so"), store.folder.join("liar"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/softhsm/liar.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&module).arg(source).arg("-ldl");
        assert!(compiler.status().expect("a C compiler").success());
        // SAFETY: a test that runs alone in its process, before it starts threads.
        unsafe { std::env::set_var("LIAR", &file) };
        Liar { module, file }
    }

    fn behaves(&self, how: &str) {
        std::fs::write(self.file.with_extension("new"), how).expect("a file");
        std::fs::rename(self.file.with_extension("new"), &self.file).expect("the same folder");
    }

    fn token(&self, name: &'static str, label: &str) -> Opening {
        Opening { module: self.module.clone(), ..hosted(name, label) }
    }
}

/// The processes that this one has started.
fn children() -> Vec<u32> {
    let threads = std::fs::read_dir("/proc/self/task").expect("proc").flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill");
}

/// Tokens with the same key called `signer`.
fn clones(store: &Store, labels: &[&str]) -> Pair {
    let pair = generate(KeyPair::Ec(Curve::P256));
    for label in labels {
        store.token(label);
        import(store, label, "signer", "01", &pair);
    }
    pair
}

/// Callers that sign with a key by reference until they are told to stop, and look at each signature.
struct Load {
    stop: AtomicBool,
    done: AtomicUsize,
    /// Milliseconds that the slowest signature took.
    longest_ms: AtomicU64,
}

impl Load {
    /// Has callers sign while `work` is under way: none may be lost, and none wrong. Tells how many, and how long the slowest took.
    fn during(mill: &Mill, pair: &Pair, work: impl FnOnce(&Load)) -> (usize, Duration) {
        let key = mill.keys().import(KeyMaterial::reference("signer"), KeyPolicy::default()).expect("room");
        let load = Load { stop: AtomicBool::new(false), done: AtomicUsize::new(0), longest_ms: AtomicU64::new(0) };
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                scope.spawn(|| load.sign(mill, key, pair));
            }
            load.wait(CALLERS);
            work(&load);
            load.stop.store(true, Ordering::Relaxed);
        });
        (load.done.into_inner(), Duration::from_millis(load.longest_ms.into_inner()))
    }

    fn sign(&self, mill: &Mill, key: KeyId, pair: &Pair) {
        while !self.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let (status, signature) = sign(mill, key).expect("lost");
            assert_eq!(status, OpStatus::Done, "lost");
            self.longest_ms.fetch_max(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
            assert!(is_valid(p256(), &pair.public, MESSAGE, &signature), "wrong");
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Until so many more signatures have been made.
    fn wait(&self, more: usize) {
        let (until, begun) = (self.done.load(Ordering::Relaxed) + more, Instant::now());
        while self.done.load(Ordering::Relaxed) < until {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody signs any more");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn sign(mill: &Mill, key: KeyId) -> Result<(OpStatus, Vec<u8>), Error> {
    sign_on(mill, key, None)
}

/// One signature, by the engine that is named if one is.
fn sign_on(mill: &Mill, key: KeyId, engine: Option<&str>) -> Result<(OpStatus, Vec<u8>), Error> {
    let mut arena = [MESSAGE, &[0; 64]].concat();
    let mut ops = [Op { key, ..op_of(MESSAGE.len(), 64) }];
    let options = RunOptions { engine, ..RunOptions::default() };
    mill.run_with(Batch::new(p256(), Direction::Encrypt, &mut ops, &mut arena), &options)?;
    Ok((ops[0].status, arena[MESSAGE.len()..].to_vec()))
}

fn mill(tokens: impl IntoIterator<Item = Arc<dyn Engine>>) -> Mill {
    // Quarantines do not grow, so that a test sees many of them end.
    let trust = TrustPolicy { quarantine_max: TrustPolicy::default().quarantine_min, ..TrustPolicy::default() };
    // The reference verifies what they sign.
    Mill::builder().engines(tokens).engine(Arc::new(Reference::new())).trust(trust).open().expect("opens")
}

fn quarantines(mill: &Mill, name: &str) -> u64 {
    mill.metrics().engines.iter().find(|engine| engine.engine == name).map_or(0, |engine| engine.quarantines)
}

#[test]
fn a_token_in_a_process_of_its_own_does_what_it_does_here() {
    alone("failover::a_token_in_a_process_of_its_own_does_what_it_does_here", |store| {
        let pair = clones(store, &["one"]);
        let engine = open(Opening { copies: true, ..hosted("one", "one") });
        assert_eq!(children().len(), 1);
        let mut count = 0;
        for suite in engine.capabilities().iter().flat_map(|one| one.suites) {
            run_known_answer(engine.as_ref(), *suite).unwrap_or_else(|error| panic!("{suite}: {error}"));
            count += 1;
        }
        assert!(count >= 20, "{count} suites are claimed");
        let key = engine.prepare(&KeyMaterial::reference("signer"), p256()).expect("the token has it");
        assert_eq!(engine.public_half(&key, p256()), Some(&pair.public[..]));
        let (status, signature) = run(engine.as_ref(), &key, p256(), Direction::Encrypt, MESSAGE, &[0; 64]);
        assert!(status.is_done() && is_valid(p256(), &pair.public, MESSAGE, &signature));
        let missing = engine.prepare(&KeyMaterial::reference("missing"), p256()).expect_err("nobody has it");
        assert!(matches!(missing, Error::Refused(Refusal::KeyUnsuitable { .. })), "{missing}");
        drop((key, engine));
        assert!(children().is_empty(), "its process goes with the engine");
    });
}

#[test]
fn another_process_takes_the_place_of_one_that_died_and_the_key_is_the_same() {
    alone("failover::another_process_takes_the_place_of_one_that_died_and_the_key_is_the_same", |store| {
        let pair = clones(store, &["one"]);
        let engine = open(hosted("one", "one"));
        let key = engine.prepare(&KeyMaterial::reference("signer"), p256()).expect("the token has it");
        let sign = || run(engine.as_ref(), &key, p256(), Direction::Encrypt, MESSAGE, &[0; 64]);
        assert!(sign().0.is_done());
        let first = children();
        first.iter().for_each(|pid| signal(*pid, "KILL"));
        assert_eq!(sign(), (OpStatus::EngineFault, vec![0; 64]), "what it was asked is lost");
        let (status, signature) = sign();
        assert!(status.is_done() && is_valid(p256(), &pair.public, MESSAGE, &signature));
        assert_ne!(children(), first);
        // While none is there the token gets another key of the same name.
        children().iter().for_each(|pid| signal(*pid, "KILL"));
        store.util(&["--delete-token", "--token", "one"]);
        clones(store, &["one"]);
        for _ in 0..3 {
            assert_eq!(sign(), (OpStatus::EngineFault, vec![0; 64]), "another key of the same name signs nothing");
        }
    });
}

#[test]
fn another_secret_key_does_not_take_the_place_of_one_while_its_process_is_away() {
    alone("failover::another_secret_key_does_not_take_the_place_of_one_while_its_process_is_away", |store| {
        let suite = Suite::Mac(Mac::Cmac(AesSize::Aes128));
        store.token("one");
        import_aes(store, "secret", &[7; 16]);
        let engine = open(hosted("one", "one"));
        let key = engine.prepare(&KeyMaterial::reference("secret"), suite).expect("the token has it");
        let mac = || run(engine.as_ref(), &key, suite, Direction::Encrypt, MESSAGE, &[0; 16]);
        let (status, made) = mac();
        assert!(status.is_done());
        for (bytes, expected) in [([8; 16], OpStatus::EngineFault), ([7; 16], OpStatus::Done)] {
            store.util(&["--delete-token", "--token", "one"]);
            store.token("one");
            import_aes(store, "secret", &bytes);
            children().iter().for_each(|pid| signal(*pid, "KILL"));
            assert_eq!(mac().0, OpStatus::EngineFault, "what it was asked is lost");
            let (status, again) = mac();
            assert_eq!((status, again == made), (expected, expected.is_done()));
        }
    });
}

#[test]
fn what_is_no_host_opens_nothing_and_stays_no_process() {
    alone("failover::what_is_no_host_opens_nothing_and_stays_no_process", |store| {
        clones(store, &["one"]);
        let with = |program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
            let host = Some(Host { program: program.into(), arguments });
            let opened = ciphermill_token::open(Opening { host, ..hosted("one", "one") });
            opened.expect_err("no token").to_string()
        };
        assert!(with("/nonexistent/host", &[]).contains("/nonexistent/host"));
        for (program, arguments) in [("true", &[][..]), ("cat", &[]), ("sh", &["-c", "head -c 20 /dev/zero >&0"])] {
            let said = with(program, arguments);
            assert!(said.contains("does not answer, or has died"), "{program}: {said}");
        }
        let denied = Opening { pin: opening("one", "one", "wrong", false).pin, ..hosted("one", "one") };
        // CKR_PIN_INCORRECT.
        assert_eq!(ciphermill_token::open(denied).err(), Some(TokenError::Call(0xa0)));
        assert!(children().is_empty());
    });
}

#[test]
fn a_process_has_nothing_open_of_who_started_it() {
    alone("failover::a_process_has_nothing_open_of_who_started_it", |store| {
        clones(store, &["one"]);
        let path = store.folder.join("of the application");
        let file = std::fs::File::create(&path).expect("a file");
        // Not closed when another program is started, as most programs have their files.
        // SAFETY: a descriptor of the file above.
        let copy = unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) };
        assert!(copy > 2);
        let open_in = |process: &str| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors").flatten();
            entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
        };
        let _engine = open(hosted("one", "one"));
        assert!(open_in("self").contains(&path));
        let [process] = children()[..] else { panic!("one process") };
        assert!(!open_in(&process.to_string()).contains(&path));
    });
}

#[test]
fn killed_tokens_lose_nothing_of_what_many_ask() {
    alone("failover::killed_tokens_lose_nothing_of_what_many_ask", |store| {
        let pair = clones(store, &["one", "two", "three"]);
        let mill = mill([hosted("one", "one"), hosted("two", "two"), hosted("three", "three")].map(open));
        let (done, longest) = Load::during(&mill, &pair, |load| {
            for _ in 0..10 {
                let pids = children();
                assert!(!pids.is_empty());
                signal(pids[load.done.load(Ordering::Relaxed) % pids.len()], "KILL");
                load.wait(200);
            }
        });
        assert!(done >= 2_000);
        assert!(longest < Duration::from_secs(1), "somebody waited {longest:?}");
    });
}

#[test]
fn a_token_that_hangs_is_ended_and_another_process_serves_it() {
    alone("failover::a_token_that_hangs_is_ended_and_another_process_serves_it", |store| {
        let pair = clones(store, &["one", "two"]);
        let mill = mill([hosted("one", "one"), hosted("two", "two")].map(open));
        let (_, longest) = Load::during(&mill, &pair, |load| {
            let stopped = children()[0];
            signal(stopped, "STOP");
            // It is ended, and another takes its place.
            let begun = Instant::now();
            while children().contains(&stopped) || children().len() < 2 {
                assert!(begun.elapsed() < Duration::from_secs(30), "nobody has ended what hangs");
                load.wait(10);
            }
        });
        assert!(longest < Duration::from_secs(3), "somebody waited {longest:?}");
    });
}

#[test]
fn a_token_that_misbehaves_is_left_and_taken_back() {
    alone("failover::a_token_that_misbehaves_is_left_and_taken_back", |store| {
        let (liar, pair) = (Liar::new(store), clones(store, &["one", "two"]));
        let mill = mill([liar.token("liar", "one"), hosted("two", "two")].map(open));
        Load::during(&mill, &pair, |load| {
            for how in ["lies", "crashes", "errs", "nonsense: zeros", "wrong lengths", "removed", "hangs"] {
                let before = quarantines(&mill, "liar");
                liar.behaves(how);
                let begun = Instant::now();
                while quarantines(&mill, "liar") == before {
                    assert!(begun.elapsed() < Duration::from_secs(30), "`{how}` was not noticed");
                    load.wait(1);
                }
                liar.behaves("good");
                load.wait(50);
            }
        });
        // Good again, and its last quarantine over, it signs.
        let begun = Instant::now();
        let key = mill.keys().import(KeyMaterial::reference("signer"), KeyPolicy::default()).expect("room");
        while !sign_on(&mill, key, Some("liar")).is_ok_and(|(status, _)| status.is_done()) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is never taken back");
            thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn a_token_that_lies_alone_signs_nothing_wrong() {
    alone("failover::a_token_that_lies_alone_signs_nothing_wrong", |store| {
        let liar = Liar::new(store);
        clones(store, &["one"]);
        let mill = mill([open(liar.token("liar", "one"))]);
        let key = mill.keys().import(KeyMaterial::reference("signer"), KeyPolicy::default()).expect("room");
        assert!(sign(&mill, key).is_ok_and(|(status, _)| status.is_done()));
        liar.behaves("lies");
        assert_eq!(sign(&mill, key).err(), Some(Error::fault("liar", FaultKind::WrongResult)));
        assert_eq!(quarantines(&mill, "liar"), 1);
    });
}
