//! A struct written without some of its fields.
//!
//! Whether a field has a meaning may depend on another one, which `skip_serializing_if` does not see.

use serde::Serialize;
use serde::ser::{Error, Impossible, SerializeStruct, Serializer};

/// Writes a struct to `to`, all fields but these. Of values that are no structs nothing can be left out: they are refused.
pub(crate) struct Without<S> {
    pub(crate) fields: &'static [&'static str],
    pub(crate) to: S,
}

impl<S: SerializeStruct> SerializeStruct for Without<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_field<T: ?Sized + Serialize>(&mut self, key: &'static str, value: &T) -> Result<(), S::Error> {
        match self.fields.contains(&key) {
            true => self.to.skip_field(key),
            false => self.to.serialize_field(key, value),
        }
    }

    fn skip_field(&mut self, key: &'static str) -> Result<(), S::Error> {
        self.to.skip_field(key)
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.to.end()
    }
}

/// Methods that refuse what is no struct.
macro_rules! refuse {
    ($($name:ident $(<$T:ident>)? ($($Type:ty),*) -> $Done:ident;)*) => {$(
        fn $name $(<$T: ?Sized + Serialize>)? (self, $(_: $Type),*) -> Result<Self::$Done, S::Error> {
            Err(S::Error::custom("only fields of a struct can be left out"))
        }
    )*};
}

impl<S: Serializer> Serializer for Without<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Impossible<S::Ok, S::Error>;
    type SerializeTuple = Impossible<S::Ok, S::Error>;
    type SerializeTupleStruct = Impossible<S::Ok, S::Error>;
    type SerializeTupleVariant = Impossible<S::Ok, S::Error>;
    type SerializeMap = Impossible<S::Ok, S::Error>;
    type SerializeStruct = Without<S::SerializeStruct>;
    type SerializeStructVariant = Impossible<S::Ok, S::Error>;

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        let to = self.to.serialize_struct(name, len.saturating_sub(self.fields.len()))?;
        Ok(Without { fields: self.fields, to })
    }

    refuse! {
        serialize_bool(bool) -> Ok;
        serialize_i8(i8) -> Ok;
        serialize_i16(i16) -> Ok;
        serialize_i32(i32) -> Ok;
        serialize_i64(i64) -> Ok;
        serialize_u8(u8) -> Ok;
        serialize_u16(u16) -> Ok;
        serialize_u32(u32) -> Ok;
        serialize_u64(u64) -> Ok;
        serialize_f32(f32) -> Ok;
        serialize_f64(f64) -> Ok;
        serialize_char(char) -> Ok;
        serialize_str(&str) -> Ok;
        serialize_bytes(&[u8]) -> Ok;
        serialize_none() -> Ok;
        serialize_some<T>(&T) -> Ok;
        serialize_unit() -> Ok;
        serialize_unit_struct(&'static str) -> Ok;
        serialize_unit_variant(&'static str, u32, &'static str) -> Ok;
        serialize_newtype_struct<T>(&'static str, &T) -> Ok;
        serialize_newtype_variant<T>(&'static str, u32, &'static str, &T) -> Ok;
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }
}
