//! Whatever the number of threads and the batch, every input has one record, in its place, with the same class.

use paceline_config::Config;
use paceline_image::{Pixels, encode_png};
use paceline_predict::{Options, Predictor};
use paceline_run::{Place, Silent, train};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::OnceLock;

const COUNT: usize = 70;

struct Made {
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
}

/// A trained run, and photos of which every seventh is none.
fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let sets = ["data.name=fake:6x6:4:200", "model.hidden=[8]", "train.epochs=2", "strategy.threads=1"];
        let config = Config::from_parts(None, &sets).unwrap();
        train(&config, &Place::New(folder.path().join("run")), &Silent, &false.into()).unwrap();
        let file = |number: usize| {
            let path = folder.path().join(format!("{number}.png"));
            let data = (0..36).map(|at| ((at * 7 + number * 29) % 256) as u8).collect();
            let image = encode_png(&Pixels { width: 6, height: 6, channels: 1, data }).unwrap();
            std::fs::write(&path, if number % 7 == 3 { b"none".to_vec() } else { image }).unwrap();
            path
        };
        Made { files: (0..COUNT).map(file).collect(), folder }
    })
}

/// Input, class and whether it is bad, of every record.
fn predict(files: &[PathBuf], threads: usize, batch: Option<usize>) -> Vec<(String, Option<usize>)> {
    let options = Options { threads: Some(threads), batch, ..Options::default() };
    let mut predictor = Predictor::open(&made().folder.path().join("run"), &options).unwrap();
    let inputs = predictor.inputs(files).unwrap();
    let mut list = Vec::new();
    let each = &mut |prediction: &paceline_predict::Prediction<'_>| {
        assert_eq!(prediction.top.is_empty(), prediction.error.is_some());
        list.push((prediction.input.clone(), prediction.top.first().map(|score| score.class)));
        Ok(())
    };
    let counts = predictor.predict(&inputs, 2, each).unwrap();
    assert_eq!(counts.bad as usize, list.iter().filter(|(_, class)| class.is_none()).count());
    list
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn records_come_in_order(threads in 1usize..7, batch in 1usize..40, count in 1usize..COUNT, from in 0usize..COUNT) {
        let all = predict(&made().files, 1, None);
        let files: Vec<PathBuf> = (0..count).map(|i| made().files[(from + i * 11) % COUNT].clone()).collect();
        let list = predict(&files, threads, Some(batch));
        prop_assert_eq!(list.len(), files.len());
        for (file, (input, class)) in files.iter().zip(&list) {
            prop_assert_eq!(&file.display().to_string(), input);
            let same = all.iter().find(|(name, _)| name == input).unwrap();
            prop_assert_eq!(class, &same.1);
        }
    }
}

/// Photos given as bytes, rows of values and files are the same to the model.
#[test]
fn bytes_rows_and_files_agree() {
    let made = made();
    let mut predictor = Predictor::open(&made.folder.path().join("run"), &Options::default()).unwrap();
    let good: Vec<&PathBuf> = made.files.iter().filter(|f| std::fs::read(f).unwrap() != b"none").collect();
    let images: Vec<Vec<u8>> = good.iter().map(|f| std::fs::read(f).unwrap()).collect();
    let by_bytes = predictor.predict_images(images).unwrap();
    let rows = (0..COUNT)
        .filter(|n| n % 7 != 3)
        .flat_map(|number| (0..36).map(move |at| f32::from(((at * 7 + number * 29) % 256) as u8) * (1.0 / 255.0)));
    assert_eq!(predictor.predict_rows(rows.collect()).unwrap(), by_bytes);
    assert!(by_bytes.iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    let wrong = predictor.predict_images(vec![b"none".to_vec()]).unwrap_err();
    assert!(wrong.message().contains("image 0: bad image"), "{wrong}");
    assert!(predictor.predict_rows(vec![0.0; 37]).is_err());
}
