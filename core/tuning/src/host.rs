//! What measured costs depend on besides the engines.

/// The machine and the build, as far as figures depend on them: measured elsewhere they mean nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The processor's own name.
    pub cpu: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Instruction sets that matter to ciphers, of those that the processor has.
    pub features: Vec<String>,
    /// Whether this program was built with optimisation.
    pub optimised: bool,
}

const FEATURES: [&str; 12] = [
    "aes",
    "pclmulqdq",
    "sha_ni",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512ifma",
    "vaes",
    "vpclmulqdq",
    "gfni",
    "asimd",
];

impl Host {
    /// Looks at this machine.
    pub fn here() -> Host {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |names: &[&str]| {
            cpuinfo.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                names.contains(&name.trim()).then(|| value.trim().to_owned())
            })
        };
        let flags = field(&["flags", "Features"]).unwrap_or_default();
        let has = |feature: &&str| flags.split_whitespace().any(|flag| flag == *feature);
        Host {
            cpu: field(&["model name", "CPU part"]).unwrap_or_else(|| "unknown processor".to_owned()),
            // Not those that this thread may use: it may be pinned to one.
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(1),
            features: FEATURES.iter().filter(|feature| has(feature)).map(|feature| (*feature).to_owned()).collect(),
            optimised: !cfg!(debug_assertions),
        }
    }
}
