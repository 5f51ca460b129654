//! `lab simulate`: the service on machines that are not there, with the costs of this one.

mod found;
mod machine;
mod shown;
mod table;

use ciphermill::Mill;
use ciphermill_report::Section;
use ciphermill_simulate::{Scenario, cores_needed, knee, run as simulate};

use crate::LabError;
use crate::method::{Options, Progress};
use found::Found;
pub use found::{Compared, Figure, Simulation, Sweep};
pub use machine::Machine;
pub use shown::compared;
pub use table::Table;

/// The load of a first look, in requests a second, and what is asked for.
const USUAL: (&str, &str) = ("poisson:20000", "rsa-2048-sign-pkcs1-sha256:0.5,aes-256-gcm/64:0.5");

/// The method in the lab's common frame: 16 cores with a mix of signatures and short messages, over loads.
///
/// # Errors
/// [`LabError`]: no engine runs the mix, a user who asked for an end.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mill = Mill::builder().engines(ciphermill_engines::all()).open();
    let mill = mill.map_err(|source| LabError::Engine { engine: "mill".to_owned(), source })?;
    let mut scenario = Scenario { cores: 16, seed: options.seed, seconds: 1.0, ..Scenario::default() };
    scenario.add_clients((1000, 1.0), USUAL.0, USUAL.1, &Machine::new(mill))?;
    Simulation { scenario, sweep: Sweep::Load, knee: 5.0 }.section(progress)
}

impl Simulation {
    /// Simulates, and shows what came of it.
    ///
    /// # Errors
    /// [`LabError::Simulation`] for what cannot be simulated; a user who asked for an end.
    pub fn section(&self, progress: Progress<'_>) -> Result<Section, LabError> {
        if self.knee.is_nan() || self.knee <= 1.0 {
            return Err(LabError::Parameters(format!("--knee {}: must be above 1", self.knee)));
        }
        let mut interrupted = None;
        let mut goes_on = |what: String| match progress(&what) {
            Ok(()) => true,
            Err(error) => {
                interrupted = Some(error);
                false
            }
        };
        let found = match self.sweep {
            Sweep::Once => {
                goes_on(format!("{} cores", self.scenario.cores));
                Found::Once(simulate(&self.scenario)?)
            }
            Sweep::Load => Found::Load(knee(&self.scenario, self.knee, |load| goes_on(format!("{load:.0} a second")))?),
            Sweep::Cores => {
                Found::Cores(cores_needed(&self.scenario, self.knee, |cores| goes_on(format!("{cores} cores")))?)
            }
        };
        interrupted.map_or_else(|| Ok(shown::section(self, &found)), Err)
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::EngineKind;
    use ciphermill_simulate::DeviceText;

    use super::*;

    fn simulation(sweep: Sweep) -> Simulation {
        let engine = crate::engines::open("library").expect("opens everywhere");
        let mill = Mill::builder().engine(engine).open().expect("a mill");
        let machine = Machine::new(mill);
        let mut scenario = Scenario { cores: 2, seconds: 0.05, ..Scenario::default() };
        scenario.add_clients((10, 1.0), "poisson:2000", "sha256/64:1,ecdsa-p256@hsm:1", &machine).expect("known");
        let devices = [DeviceText { kind: EngineKind::Token, count: 1 }];
        scenario.add_devices(&devices, &machine).expect("known");
        Simulation { scenario, sweep, knee: 5.0 }
    }

    #[test]
    fn each_sweep_is_a_sound_section() {
        for sweep in [Sweep::Once, Sweep::Load, Sweep::Cores] {
            let section = simulation(sweep).section(&mut |_| Ok(())).expect("sound");
            section.check().expect("sound");
            assert!(!section.measurements.is_empty() && !section.tables.is_empty(), "{sweep:?}");
            assert!(section.conclusions[0].contains("10 clients"), "{:?}", section.conclusions);
        }
    }

    #[test]
    fn an_end_is_heard_and_a_bound_that_is_none_is_refused() {
        let stopped = simulation(Sweep::Load).section(&mut |_| Err(LabError::Interrupted));
        assert!(matches!(stopped, Err(LabError::Interrupted)));
        let mut wrong = simulation(Sweep::Load);
        wrong.knee = 1.0;
        assert!(wrong.section(&mut |_| Ok(())).expect_err("no").to_string().contains("--knee 1: must be above 1"));
    }
}
