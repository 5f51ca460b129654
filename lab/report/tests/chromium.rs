//! Looks at a page in headless Chromium: it loads without a word on the console, every plot has a size, the
//! names of a map's rows stay where they are when it is scrolled, and what is painted is not blank, in light and dark,
//! wide and narrow.
//!
//! The pages and pictures stay in `target/tmp`, to be looked at.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

// The sample of the unit tests; its `crate::…` are these.
use ciphermill_report::{
    Axis, Better, Cell, Crossing, Emphasis, Environment, Estimate, Look, Machine, Map, MapCell, MapGroup, Plot,
    RECORD_FORMAT, Record, Scale, Section, Series, Table, html,
};
use zune_png::PngDecoder;
use zune_png::zune_core::bytestream::ZCursor;

#[path = "../src/sample.rs"]
mod sample;

/// Where the binary may be told; otherwise the usual names are tried.
const VARIABLE: &str = "CIPHERMILL_CHROMIUM";
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// What the test adds to a copy of the page: it writes down what the browser laid out.
const PROBE: &str = "<script>
addEventListener('load', () => {
  const box = element => { const b = element.getBoundingClientRect(); return Math.round(b.width) + 'x' + Math.round(b.height); };
  const all = selector => [...document.querySelectorAll(selector)];
  const probe = document.createElement('pre');
  probe.id = 'probe';
  probe.textContent = [
    'plots ' + all('svg.plot').map(box).join(' '),
    'lines ' + all('svg.plot path.line').map(line => Math.round(line.getTotalLength())).join(' '),
    'scripts ' + all('script').length,
    'scrolls ' + (document.documentElement.scrollWidth > innerWidth),
    'sticky ' + all('.tablebox').filter(b => b.querySelector('.map')).map(b => {
      b.scrollLeft = 1e6;
      const left = b.querySelector('tbody th').getBoundingClientRect().left - b.getBoundingClientRect().left;
      return Math.round(b.scrollLeft) + 'px:' + Math.round(left);
    }).join(' '),
    'background ' + getComputedStyle(document.documentElement).backgroundColor,
    'links ' + all('a[href^=\"#\"]').filter(a => !document.getElementById(a.hash.slice(1))).length,
    'end'].join('\\n');
  document.body.append(probe);
});
</script>";

/// The browser, or nothing and a loud word; where tests must be complete, a failure.
fn browser() -> Option<PathBuf> {
    let told = std::env::var_os(VARIABLE).map(PathBuf::from);
    let found = told
        .into_iter()
        .chain(NAMES.map(PathBuf::from))
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    if found.is_none() {
        let complaint = format!(
            "\nNOT RUN: no Chromium, so no report was looked at in a browser. Install it (Debian: apt-get install chromium) \
             or name its program in {VARIABLE}.\n\n"
        );
        // Past the test harness, which keeps what passing tests print to itself.
        std::io::stderr().write_all(complaint.as_bytes()).expect("standard error takes a text");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{complaint}");
    }
    found
}

fn run(browser: &Path, arguments: &[String]) -> Output {
    let home = tempfile::tempdir().expect("a folder for the browser's own files");
    let output = Command::new(browser)
        // Root gets no sandbox; the page is our own.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .args(["--no-first-run", "--disable-extensions", "--disable-background-networking", "--enable-logging=stderr"])
        .arg(format!("--user-data-dir={}", home.path().display()))
        .args(arguments)
        .output()
        .expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// What the page wrote on the console, and other complaints about it.
fn console(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.contains("CONSOLE") || line.contains("Refused to")).map(str::to_owned).collect()
}

fn page(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the target folder takes a page");
    format!("file://{}", path.display())
}

/// The page's own words about its layout, by name.
fn layout(dump: &str, name: &str) -> Vec<String> {
    let probe = dump.split_once("id=\"probe\">").expect("the probe ran").1;
    let line = probe.lines().find_map(|line| line.strip_prefix(name)).expect("the probe wrote all its lines");
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn pages_load_in_silence_and_every_plot_has_a_size() {
    let Some(browser) = browser() else { return };
    let record = sample::record();
    let text = html(&record);
    let output = run(&browser, &["--dump-dom".to_owned(), page("report.html", &text)]);
    assert_eq!(console(&output), [""; 0], "the page as it is");

    // The copy may run the probe's script.
    let policy = text.find("<meta http-equiv=\"Content-Security-Policy\"").expect("the page forbids itself scripts");
    let policy_end = policy + text[policy..].find('>').expect("the element ends") + 1;
    let probed = format!("{}{}", &text[..policy], &text[policy_end..]).replace("</body>", &format!("{PROBE}</body>"));
    let address = page("report-probed.html", &probed);
    for width in [1280, 390] {
        let window = format!("--window-size={width},900");
        let output = run(&browser, &["--dump-dom".to_owned(), window, address.clone()]);
        assert_eq!(console(&output), [""; 0], "{width} wide");
        let dump = String::from_utf8_lossy(&output.stdout);
        let plots = layout(&dump, "plots ");
        assert_eq!(plots.len(), record.sections.iter().map(|section| section.plots.len()).sum::<usize>());
        for (size, plot) in plots.iter().zip(record.sections.iter().flat_map(|section| &section.plots)) {
            let (across, down) = size.split_once('x').expect("width and height");
            let number = |text: &str| text.parse::<u32>().expect("a whole number");
            // A plot without lines is but a box that says so.
            let down_min = if plot.series.is_empty() { 50 } else { 200 };
            assert!(number(across) > 300 && number(down) > down_min, "{width} wide: {:?} is {size}", plot.title);
        }
        let lines = layout(&dump, "lines ");
        assert_eq!(lines.len(), 10 + 10 + 4 + 2 + 1, "a path for each line that has points");
        let short = lines.iter().filter(|length| length.parse::<f64>().expect("a length") < 50.0).count();
        assert_eq!(short, 1, "only the line of one point has no length: {lines:?}");
        let maps = layout(&dump, "sticky ");
        assert_eq!(maps.len(), record.sections.iter().map(|section| section.maps.len()).sum::<usize>());
        for map in maps {
            let (scrolled, left) = map.split_once("px:").expect("how far it is scrolled, and where its names stand");
            assert!(scrolled != "0" && left == "0", "{width} wide: scrolled by {scrolled}, names at {left}");
        }
        assert_eq!(layout(&dump, "scripts "), ["1"], "no text of the record became a script");
        assert_eq!(layout(&dump, "links "), ["0"], "every link leads somewhere");
        assert_eq!(layout(&dump, "scrolls "), ["false"], "{width} wide: nothing sticks out");
    }
}

/// A picture's size, the number of its colours, and its mean brightness from 0 to 255.
fn look(path: &Path) -> ((usize, usize), BTreeSet<[u8; 3]>, f64) {
    let file = std::fs::read(path).expect("the browser wrote a picture");
    let mut decoder = PngDecoder::new(ZCursor::new(file));
    let bytes = decoder.decode().expect("it is a whole PNG").u8().expect("with bytes as samples");
    let (width, height) = decoder.dimensions().expect("it has a size");
    let samples = decoder.colorspace().expect("it has colours").num_components();
    assert!(samples >= 3, "in colour");
    let pixels: Vec<[u8; 3]> = bytes.chunks(samples).map(|p| [p[0], p[1], p[2]]).collect();
    let sum: f64 = pixels.iter().map(|pixel| pixel.iter().map(|byte| f64::from(*byte)).sum::<f64>() / 3.0).sum();
    ((width, height), pixels.iter().copied().collect(), sum / pixels.len() as f64)
}

#[test]
fn pages_are_painted_in_light_and_dark_wide_and_narrow() {
    let Some(browser) = browser() else { return };
    let address = page("report-painted.html", &html(&sample::record()));
    // The colours of the first lines, and of the ends of the maps' scale, as the style sheet has them.
    let inks = [
        ("light", 1, [[0x12, 0x46, 0xe6], [0x7a, 0x26, 0x04], [0xe8, 0x81, 0x2b], [0x4f, 0x96, 0xd8]]),
        ("dark", 0, [[0x72, 0xe0, 0xf2], [0xfb, 0x4d, 0x22], [0xa0, 0x4d, 0x00], [0x25, 0x67, 0xa6]]),
    ];
    for (mode, scheme, inks) in inks {
        for (width, height) in [(1280, 6200), (390, 9000)] {
            let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{mode}-{width}.png"));
            let output = run(
                &browser,
                &[
                    format!("--blink-settings=preferredColorScheme={scheme}"),
                    format!("--window-size={width},{height}"),
                    format!("--screenshot={}", picture.display()),
                    address.clone(),
                ],
            );
            assert_eq!(console(&output), [""; 0], "{mode}, {width} wide");
            let (size, colours, brightness) = look(&picture);
            assert_eq!(size, (width, height));
            assert!(colours.len() > 100, "{mode}, {width} wide: {} colours", colours.len());
            assert_eq!(brightness < 128.0, mode == "dark", "{mode}, {width} wide: brightness {brightness}");
            for ink in inks {
                assert!(colours.contains(&ink), "{mode}, {width} wide: nothing in {ink:02x?}");
            }
        }
    }
}
