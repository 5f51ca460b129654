//! How colours of a style sheet look to people, for tests.

type Colour = [f64; 3];

/// A style sheet's value of a variable, in light and in dark: red, green and blue from 0 to 1.
pub(crate) fn colours(style: &str, variable: &str) -> [Colour; 2] {
    let name = format!("--{variable}: #");
    let mut found = style.match_indices(&name).map(|(at, name)| {
        let hex = &style[at + name.len()..at + name.len() + 6];
        [0, 2, 4].map(|place| f64::from(u8::from_str_radix(&hex[place..place + 2], 16).expect("six digits")) / 255.0)
    });
    [found.next().expect("a light colour"), found.next().expect("a dark colour")]
}

/// The light of each channel (sRGB, IEC 61966-2-1).
fn linear(colour: Colour) -> Colour {
    colour.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
}

fn times(matrix: [Colour; 3], [r, g, b]: Colour) -> Colour {
    matrix.map(|row| (row[0] * r + row[1] * g + row[2] * b).clamp(0.0, 1.0))
}

/// The contrast of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio").
pub(crate) fn contrast(one: Colour, other: Colour) -> f64 {
    let light = |[r, g, b]: Colour| 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    let (one, other) = (light(linear(one)), light(linear(other)));
    one.max(other) / one.min(other)
}

/// A colour's place in CIELAB (1976, white D65).
fn lab(light: Colour) -> Colour {
    let xyz = times(
        [
            [0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505],
            [0.2126, 0.7152, 0.0722],
            [0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089],
        ],
        light,
    );
    let [x, y, z] = xyz.map(|t| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// How far two colours lie apart (CIE76) for whoever sees them worst: everybody, or people without red or without green
/// cones, by the matrices of Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
/// Deficiency", 2009, severity 1.
pub(crate) fn apart(one: Colour, other: Colour) -> f64 {
    const SIGHTS: [[Colour; 3]; 3] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ];
    let distance = |sight: [Colour; 3]| {
        let (one, other) = (lab(times(sight, linear(one))), lab(times(sight, linear(other))));
        one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    };
    SIGHTS.into_iter().map(distance).fold(f64::INFINITY, f64::min)
}

#[test]
fn known_colours_have_known_contrasts() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    // Red and green that differ to most, and little to those without green cones.
    let (red, green) = ([0.7, 0.3, 0.1], [0.45, 0.45, 0.1]);
    assert!(apart(red, green) < 12.0, "{}", apart(red, green));
    assert!((lab(linear([1.0; 3]))[0] - 100.0).abs() < 0.1);
}
