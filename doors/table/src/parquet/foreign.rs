//! What other programs keep in a file's metadata about its columns, rewritten where protection makes it false.
//!
//! Rewriting depends on nothing but the original and the columns that are protected, so that restoring can tell whether
//! somebody has changed it meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use serde_json::{Value, json};

use super::arrow_footer::Described;

/// The metadata of pandas.
const PANDAS: &str = "pandas";
/// The schema of Spark.
const SPARK: &str = "org.apache.spark.sql.parquet.row.metadata";
/// GeoParquet.
const GEO: &str = "geo";
/// Whole schemas of other systems; readers do without.
const SCHEMAS: [&str; 3] = ["parquet.avro.schema", "avro.schema", "iceberg.schema"];

/// Field metadata under these prefixes describe the type, which protection changes: Arrow's, and those of polars.
const TYPE_PREFIXES: [&str; 2] = ["ARROW:extension:", "_PL_"];
/// The values of polars' enumerations.
const ENUM_VALUES_PREFIX: &str = "_PL_ENUM_VALUES";
/// What Spark's schema says of a column that was protected there.
const MARK: &str = "ciphermill.column";

/// What Spark's machine learning says of a column; the values of a nominal one among it.
const SPARK_ATTRIBUTES: &str = "ml_attr";

/// Key-value pairs of a footer, in their order.
pub(crate) type Pairs = Vec<(String, Option<String>)>;

/// What a pair becomes when these columns turn into byte strings: nothing where it has to go.
pub(crate) fn rewritten(key: &str, value: &str, columns: &[String]) -> Option<String> {
    if columns.is_empty() {
        return Some(value.to_owned());
    }
    match key {
        ARROW_SCHEMA_META_KEY => arrow(value, columns),
        PANDAS => pandas(value, columns),
        SPARK => spark(value, columns),
        GEO => geo(value, columns),
        _ if SCHEMAS.contains(&key) => None,
        _ => Some(value.to_owned()),
    }
}

/// Rewrites all pairs; gives the originals of those that have changed, without what would reveal values.
///
/// # Errors
/// The key that stands twice, so that it could not be restored.
pub(crate) fn rewrite(pairs: &mut Pairs, columns: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut originals = BTreeMap::new();
    let mut kept = Pairs::new();
    for (key, value) in pairs.drain(..) {
        let Some(original) = value else {
            kept.push((key, None));
            continue;
        };
        let new = rewritten(&key, &original, columns);
        if new.as_ref() == Some(&original) {
            kept.push((key, Some(original)));
            continue;
        }
        if let Some(new) = new {
            kept.push((key.clone(), Some(new)));
        }
        if originals.insert(key.clone(), without_values(&key, original, columns)).is_some() {
            return Err(key);
        }
    }
    *pairs = kept;
    Ok(originals)
}

/// Puts the originals back into the pairs of a protected file. `protected` are the columns that were byte strings there,
/// `still` those that stay so, and `restored` the others: their names now and then.
pub(crate) fn restore(
    pairs: &mut Pairs,
    originals: &BTreeMap<String, String>,
    protected: &[String],
    still: &[String],
    restored: &[(String, String)],
) {
    for (key, original) in originals {
        let now = pairs.iter().find(|(found, _)| found == key).and_then(|(_, value)| value.clone());
        let new = if now == rewritten(key, original, protected) {
            rewritten(key, original, still)
        } else if key == SPARK {
            now.map(|now| spark_patched(&now, original, restored).unwrap_or(now))
        } else if key == ARROW_SCHEMA_META_KEY {
            // Without the schema, readers go by Parquet's types, which are never false.
            now.and_then(|now| patched(&now, original, protected, still, restored))
        } else {
            now
        };
        match (pairs.iter().position(|(found, _)| found == key), new) {
            (Some(at), Some(new)) => pairs[at].1 = Some(new),
            (Some(at), None) => drop(pairs.remove(at)),
            (None, Some(new)) => pairs.push((key.clone(), Some(new))),
            (None, None) => {}
        }
    }
}

fn arrow(encoded: &str, columns: &[String]) -> Option<String> {
    let described = Described::decode(encoded)?;
    let fields = described.fields().map(|(field, wide)| {
        if columns.contains(field.name()) {
            (Arc::new(protected_field(field)), Vec::new())
        } else {
            (Arc::clone(field), wide)
        }
    });
    let own = described.pairs().filter_map(|(key, value)| Some((key.clone(), nested(key, value, columns)?)));
    Described::new(fields, own).encode()
}

/// What becomes of a pair of the Arrow schema's own metadata: programs that write through Arrow put theirs there as well.
fn nested(key: &str, value: &str, columns: &[String]) -> Option<String> {
    // A schema within a schema is nobody's.
    if key == ARROW_SCHEMA_META_KEY { None } else { rewritten(key, value, columns) }
}

/// Whether a field's metadata of this key speak of its type or its values, and so do not fit byte strings.
pub(crate) fn describes_type(key: &str) -> bool {
    key == SPARK_ATTRIBUTES || TYPE_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether they tell values, and so must not be kept.
pub(crate) fn tells_values(key: &str) -> bool {
    key == SPARK_ATTRIBUTES || key.starts_with(ENUM_VALUES_PREFIX)
}

/// The field as one of byte strings, without the metadata that do not fit them.
fn protected_field(field: &Field) -> Field {
    let metadata = field.metadata().iter().filter(|(key, _)| !describes_type(key));
    Field::new(field.name(), DataType::Binary, field.is_nullable())
        .with_metadata(metadata.map(|(key, value)| (key.clone(), value.clone())).collect::<HashMap<_, _>>())
}

/// The schema now, in which restored columns have the fields that they had then.
fn patched(
    now: &str,
    original: &str,
    protected: &[String],
    still: &[String],
    restored: &[(String, String)],
) -> Option<String> {
    let (now, original) = (Described::decode(now)?, Described::decode(original)?);
    let mut fields = Vec::new();
    for (field, wide) in now.fields() {
        fields.push(match restored.iter().find(|(name, _)| name == field.name()) {
            Some((name, then)) => {
                let (field, wide) = original.fields().find(|(field, _)| field.name() == then)?;
                (Arc::new(field.as_ref().clone().with_name(name)), wide)
            }
            None => (Arc::clone(field), wide),
        });
    }
    let mut pairs: Pairs = now.pairs().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let then = original.pairs().filter(|(key, _)| *key != ARROW_SCHEMA_META_KEY);
    let then = then.map(|(key, value)| (key.clone(), value.clone())).collect();
    restore(&mut pairs, &then, protected, still, restored);
    Described::new(fields, pairs.into_iter().filter_map(|(key, value)| Some((key, value?)))).encode()
}

fn pandas(text: &str, columns: &[String]) -> Option<String> {
    let mut document: Value = serde_json::from_str(text).ok()?;
    for column in document.get_mut("columns")?.as_array_mut()? {
        let name = column.get("field_name").filter(|name| !name.is_null()).or_else(|| column.get("name"))?;
        if name.as_str().is_some_and(|name| columns.iter().any(|column| column == name)) {
            column["pandas_type"] = json!("bytes");
            column["numpy_type"] = json!("object");
            column["metadata"] = Value::Null;
        }
    }
    Some(document.to_string())
}

/// Whether pandas has a column for categories. fastparquet says so nowhere else.
pub(crate) fn is_pandas_category(pairs: &Pairs, name: &str) -> bool {
    let text = pairs.iter().find(|(key, _)| key == PANDAS).and_then(|(_, value)| value.as_deref());
    let document: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    let columns = document.as_ref().and_then(|document| document.get("columns")?.as_array());
    columns.into_iter().flatten().any(|column| {
        let is = |key: &str, text: &str| column.get(key).and_then(Value::as_str) == Some(text);
        (is("field_name", name) || is("name", name)) && is("pandas_type", "categorical")
    })
}

/// Spark's schema with the columns that are restored as they were, whatever else has changed since.
fn spark_patched(now: &str, original: &str, restored: &[(String, String)]) -> Option<String> {
    let mut now: Value = serde_json::from_str(now).ok()?;
    let original: Value = serde_json::from_str(original).ok()?;
    let originals = original.get("fields")?.as_array()?;
    let name_of = |field: &Value| field.get("name").and_then(Value::as_str).map(str::to_owned);
    for field in now.get_mut("fields")?.as_array_mut()? {
        let name = name_of(field)?;
        let Some((_, then)) = restored.iter().find(|(now, _)| *now == name) else { continue };
        let before = originals.iter().find(|original| name_of(original).as_ref() == Some(then))?;
        *field = before.clone();
        field["name"] = json!(name);
    }
    Some(now.to_string())
}

/// Spark's schema as it is when all columns are in clear that are protected, as their own metadata say (`ciphermill.column`), and the
/// key that it stands under; `None` where there is none.
pub(crate) fn spark_in_clear(pairs: &Pairs) -> Option<(String, String)> {
    let (key, text) = pairs.iter().find(|(key, _)| key == SPARK)?;
    let mut document: Value = serde_json::from_str(text.as_deref()?).ok()?;
    for field in document.get_mut("fields")?.as_array_mut()? {
        let Some(mark) = field.get_mut("metadata").and_then(Value::as_object_mut).and_then(|all| all.remove(MARK))
        else {
            continue;
        };
        field["type"] = mark.get("type")?.clone();
    }
    Some((key.clone(), document.to_string()))
}

/// Has Spark's schema say of columns that were protected there by which methods and under which key they are now.
pub(crate) fn spark_rekeyed(pairs: &mut Pairs, methods: &[(String, String)], key: &str, version: u32) {
    let Some((_, Some(text))) = pairs.iter_mut().find(|(key, _)| key == SPARK) else { return };
    let Ok(mut document) = serde_json::from_str::<Value>(text) else { return };
    let mut changed = false;
    for field in document.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some((_, method)) = methods.iter().find(|(column, _)| column == name) else { continue };
        let mark = field.get_mut("metadata").and_then(|all| all.get_mut(MARK)).and_then(Value::as_object_mut);
        let Some(mark) = mark else { continue };
        mark.extend([
            ("method".to_owned(), json!(method)),
            ("key".to_owned(), json!(key)),
            ("version".to_owned(), json!(version)),
        ]);
        changed = true;
    }
    if changed {
        *text = document.to_string();
    }
}

fn spark(text: &str, columns: &[String]) -> Option<String> {
    let mut document: Value = serde_json::from_str(text).ok()?;
    for field in document.get_mut("fields")?.as_array_mut()? {
        let is_protected = field.get("name")?.as_str().is_some_and(|name| columns.iter().any(|column| column == name));
        if is_protected {
            field["type"] = json!("binary");
            field["metadata"] = json!({});
        }
    }
    Some(document.to_string())
}

fn geo(text: &str, columns: &[String]) -> Option<String> {
    let mut document: Value = serde_json::from_str(text).ok()?;
    let before = document.get("columns")?.as_object()?.len();
    let described = document.get_mut("columns")?.as_object_mut()?;
    described.retain(|name, _| !columns.contains(name));
    if described.len() == before {
        return Some(text.to_owned());
    }
    let primary = document.get("primary_column")?.as_str()?;
    (!columns.iter().any(|column| column == primary)).then(|| document.to_string())
}

/// The original without what would tell of a protected column's values, which does not come back: a geometry's bounding
/// box, the values of an enumeration or a nominal attribute.
fn without_values(key: &str, original: String, columns: &[String]) -> String {
    match key {
        GEO => without_boxes(original, columns),
        SPARK => without_attributes(original, columns),
        ARROW_SCHEMA_META_KEY => {
            let Some(described) = Described::decode(&original) else { return original };
            let own = described.pairs().filter(|(key, _)| *key != ARROW_SCHEMA_META_KEY);
            let own = own.map(|(key, value)| (key.clone(), without_values(key, value.clone(), columns)));
            let fields = described.fields().map(|(field, wide)| (without_enum_values(field, columns), wide));
            let without = Described::new(fields, own);
            // A schema that does not have to be written anew comes back bit for bit.
            if without == described { original } else { without.encode().unwrap_or_default() }
        }
        _ => original,
    }
}

fn without_enum_values(field: &Arc<Field>, columns: &[String]) -> Arc<Field> {
    let tells = |key: &str| key.starts_with(ENUM_VALUES_PREFIX);
    if !columns.contains(field.name()) || !field.metadata().keys().any(|key| tells(key)) {
        return Arc::clone(field);
    }
    let kept = field.metadata().iter().filter(|(key, _)| !tells(key)).map(|(key, value)| (key.clone(), value.clone()));
    Arc::new(field.as_ref().clone().with_metadata(kept.collect::<HashMap<_, _>>()))
}

fn without_attributes(original: String, columns: &[String]) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(&original) else { return original };
    let mut removed = false;
    for field in document.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = field.get("name").and_then(Value::as_str);
        if name.is_some_and(|name| columns.iter().any(|column| column == name)) {
            let metadata = field.get_mut("metadata").and_then(Value::as_object_mut);
            removed |= metadata.is_some_and(|metadata| metadata.remove(SPARK_ATTRIBUTES).is_some());
        }
    }
    if removed { document.to_string() } else { original }
}

fn without_boxes(original: String, columns: &[String]) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(&original) else { return original };
    let mut removed = false;
    for column in columns {
        if let Some(column) = document.pointer_mut("/columns").and_then(|all| all.get_mut(column.as_str())) {
            removed |= column.as_object_mut().is_some_and(|column| column.remove("bbox").is_some());
        }
    }
    if removed { document.to_string() } else { original }
}

#[cfg(test)]
mod tests {
    use arrow_ipc::convert::try_schema_from_ipc_buffer;
    use arrow_schema::Schema;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use parquet::arrow::encode_arrow_schema;

    use super::*;

    fn arrow_schema(encoded: &str) -> Option<Schema> {
        try_schema_from_ipc_buffer(&STANDARD.decode(encoded).ok()?).ok()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn sample() -> Pairs {
        let category = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let extension = [("ARROW:extension:name".to_owned(), "x".to_owned()), ("note".to_owned(), "kept".to_owned())];
        let schema = Schema::new(vec![
            Field::new("a", category.clone(), true).with_dict_is_ordered(true),
            Field::new("b", category, false)
                .with_dict_is_ordered(true)
                .with_metadata(extension.into_iter().collect::<HashMap<_, _>>()),
        ]);
        let pandas = json!({"columns": [
            {"name": "a", "field_name": "a", "pandas_type": "categorical", "metadata": {"num_categories": 3, "ordered": true}},
            {"name": "b", "field_name": "b", "pandas_type": "categorical", "metadata": {"num_categories": 3, "ordered": true}},
        ], "index_columns": [{"kind": "range"}]});
        let spark = json!({"type": "struct", "fields": [
            {"name": "a", "type": "string", "nullable": true, "metadata": {}},
            {"name": "b", "type": "integer", "nullable": true, "metadata": {"x": 1, "ml_attr": {"vals": ["secret"]}}},
        ]});
        let geo = json!({"version": "1.1.0", "primary_column": "a", "columns": {
            "a": {"encoding": "WKB"}, "b": {"encoding": "WKB", "bbox": [1, 2, 3, 4]}}});
        // pyarrow keeps its table's metadata in the schema too, and goes by them there.
        let own = [("pandas", pandas.to_string()), ("geo", geo.to_string()), ("origin", "here".to_owned())];
        let own: HashMap<String, String> = own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let schema = schema.with_metadata(own);
        vec![
            (ARROW_SCHEMA_META_KEY.to_owned(), Some(encode_arrow_schema(&schema))),
            ("pandas".to_owned(), Some(pandas.to_string())),
            ("other".to_owned(), Some("b".to_owned())),
            ("empty".to_owned(), None),
            (SPARK.to_owned(), Some(spark.to_string())),
            ("geo".to_owned(), Some(geo.to_string())),
            ("parquet.avro.schema".to_owned(), Some("{}".to_owned())),
        ]
    }

    fn value<'a>(pairs: &'a Pairs, key: &str) -> Option<&'a str> {
        pairs.iter().find(|(found, _)| found == key)?.1.as_deref()
    }

    #[test]
    fn what_becomes_false_is_rewritten_and_comes_back() {
        let (original, columns) = (sample(), names(&["b"]));
        let mut pairs = original.clone();
        let originals = rewrite(&mut pairs, &columns).unwrap();
        let schema = arrow_schema(value(&pairs, ARROW_SCHEMA_META_KEY).unwrap()).unwrap();
        assert_eq!((schema.field(1).data_type(), schema.field(1).is_nullable()), (&DataType::Binary, false));
        assert_eq!(schema.field(1).metadata().keys().collect::<Vec<_>>(), ["note"]);
        assert_eq!(schema.field(0).dict_is_ordered(), Some(true));
        assert_eq!(schema.metadata().get("pandas").map(String::as_str), value(&pairs, "pandas"));
        assert_eq!(schema.metadata().get("geo").map(String::as_str), value(&pairs, "geo"));
        assert_eq!(schema.metadata().get("origin").map(String::as_str), Some("here"));
        let then = arrow_schema(&originals[ARROW_SCHEMA_META_KEY]).unwrap();
        assert!(!then.metadata()["geo"].contains("bbox"), "a bounding box tells of values");
        let pandas: Value = serde_json::from_str(value(&pairs, "pandas").unwrap()).unwrap();
        assert_eq!(pandas["columns"][1]["pandas_type"], "bytes");
        assert_eq!(pandas["columns"][0]["pandas_type"], "categorical");
        let spark: Value = serde_json::from_str(value(&pairs, SPARK).unwrap()).unwrap();
        assert_eq!((&spark["fields"][1]["type"], &spark["fields"][0]["type"]), (&json!("binary"), &json!("string")));
        assert!(!value(&pairs, "geo").unwrap().contains("\"b\"") && value(&pairs, "parquet.avro.schema").is_none());
        assert!(!originals["geo"].contains("bbox"), "a bounding box tells of values");
        assert!(
            originals[SPARK].contains("\"x\"") && !originals[SPARK].contains("secret"),
            "the values of a nominal column"
        );
        restore(&mut pairs, &originals, &columns, &[], &[("b".to_owned(), "b".to_owned())]);
        // What tells of values does not come back.
        for (key, original) in
            original.iter().filter(|(key, _)| ![GEO, SPARK, ARROW_SCHEMA_META_KEY].contains(&key.as_str()))
        {
            assert_eq!(value(&pairs, key), original.as_deref(), "{key}");
        }
        let (back, then) =
            [&pairs, &original].map(|pairs| arrow_schema(value(pairs, ARROW_SCHEMA_META_KEY).unwrap()).unwrap()).into();
        assert_eq!((back.fields(), back.metadata().get("pandas")), (then.fields(), then.metadata().get("pandas")));
        let mut primary = original.clone();
        rewrite(&mut primary, &names(&["a"])).unwrap();
        assert!(value(&primary, "geo").is_none());
    }

    #[test]
    fn a_part_is_restored_and_changes_by_others_stay() {
        let columns = names(&["a", "b"]);
        let mut pairs = sample();
        let originals = rewrite(&mut pairs, &columns).unwrap();
        let restored = [("b".to_owned(), "b".to_owned())];
        let mut part = pairs.clone();
        restore(&mut part, &originals, &columns, &names(&["a"]), &restored);
        let schema = arrow_schema(value(&part, ARROW_SCHEMA_META_KEY).unwrap()).unwrap();
        assert_eq!(schema.field(0).data_type(), &DataType::Binary);
        assert_eq!(schema.field(1).dict_is_ordered(), Some(true));
        // Somebody has put a column in and renamed `b`.
        let binary = |name: &str| Field::new(name, DataType::Binary, true);
        let own = arrow_schema(value(&pairs, ARROW_SCHEMA_META_KEY).unwrap()).unwrap().metadata().clone();
        let changed = Schema::new_with_metadata(vec![binary("new"), binary("c")], own);
        pairs[0].1 = Some(encode_arrow_schema(&changed));
        restore(&mut pairs, &originals, &columns, &[], &[("c".to_owned(), "b".to_owned())]);
        let schema = arrow_schema(value(&pairs, ARROW_SCHEMA_META_KEY).unwrap()).unwrap();
        assert_eq!(schema.field(0), &binary("new"));
        assert_eq!((schema.field(1).name().as_str(), schema.field(1).dict_is_ordered()), ("c", Some(true)));
        assert!(schema.metadata()["pandas"].contains("categorical"), "what nobody has changed comes back");
    }

    #[test]
    fn what_does_not_parse_goes_and_a_key_that_stands_twice_is_refused() {
        let mut pairs: Pairs =
            ["pandas", ARROW_SCHEMA_META_KEY, SPARK, GEO].map(|key| (key.to_owned(), Some("[1".to_owned()))).into();
        let originals = rewrite(&mut pairs, &names(&["a"])).unwrap();
        assert_eq!((pairs.len(), originals.len()), (0, 4));
        restore(&mut pairs, &originals, &names(&["a"]), &[], &[]);
        assert_eq!(pairs.len(), 4);
        pairs.push(("pandas".to_owned(), Some("{".to_owned())));
        assert_eq!(rewrite(&mut pairs, &names(&["a"])), Err("pandas".to_owned()));
    }
}
