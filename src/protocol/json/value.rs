//! The value of a JSON document, as exact as the reference's.

use std::slice;

use super::{Integer, Text};

/// A JSON value.
///
/// Other than the usual value types it keeps integers of any size, tells `1` from `1.0`, and takes
/// `NaN`, the infinities and lone surrogates. The parser bounds the nesting, so that whatever came
/// over the wire can be cloned, compared and dropped on the stack of any usual thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// A number spelled without fraction and exponent.
    Int(Integer),
    /// A number spelled with a fraction or an exponent, or one of the values without digits.
    Float(f64),
    /// A string.
    String(Text),
    /// An array.
    Array(Vec<Json>),
    /// An object.
    Object(Object),
}

/// The members of a JSON object, sorted by the code points of their keys.
///
/// A sorted vector and not a tree: objects are small, are mostly made in one go, and a tree's code
/// for copying and dropping takes much more stack for each level of nesting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Object(Vec<(Text, Json)>);

impl Json {
    /// An object with these members; the last of equal keys wins.
    pub fn object<K: Into<Text>>(members: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(members.into_iter().collect())
    }

    /// The text, if it is a string without lone surrogates.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => text.as_str(),
            _ => None,
        }
    }

    /// The number, if it is an integer (not a float) in range.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The member of this name, if it is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of this key.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let index = self.find(key.as_bytes()).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    /// Sets the value of this key and returns the one it had. To make a large object, collect it.
    pub fn insert(&mut self, key: impl Into<Text>, value: Json) -> Option<Json> {
        let key = key.into();
        match self.find(key.as_bytes()) {
            Ok(index) => {
                let (_, old) = self.0.get_mut(index)?;
                Some(std::mem::replace(old, value))
            }
            Err(index) => {
                self.0.insert(index, (key, value));
                None
            }
        }
    }

    /// Takes the value of this key out.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let index = self.find(key.as_bytes()).ok()?;
        Some(self.0.remove(index).1)
    }

    /// The values of these keys, if there are no others. The keys have to be in order.
    pub(crate) fn into_exactly<const N: usize>(self, keys: [&str; N]) -> Option<[Json; N]> {
        let found = self.0.iter().map(|(key, _)| key.as_str());
        if !found.eq(keys.into_iter().map(Some)) {
            return None;
        }
        let mut values = self.0.into_iter().map(|(_, value)| value);
        // There are as many of them.
        Some(std::array::from_fn(|_| values.next().unwrap_or(Json::Null)))
    }

    /// All members in the order of their keys.
    pub fn iter(&self) -> slice::Iter<'_, (Text, Json)> {
        self.0.iter()
    }

    /// Where the key stands, or where it would.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.0
            .binary_search_by(|(text, _)| text.as_bytes().cmp(key))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = &'a (Text, Json);
    type IntoIter = slice::Iter<'a, (Text, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K: Into<Text>> FromIterator<(K, Json)> for Object {
    /// The last of equal keys wins.
    fn from_iter<I: IntoIterator<Item = (K, Json)>>(members: I) -> Self {
        let members = members.into_iter();
        let mut members: Vec<_> = members.map(|(key, value)| (key.into(), value)).collect();
        // The sort keeps equal keys in the order they came in.
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Self(members)
    }
}

impl From<Object> for Json {
    fn from(members: Object) -> Self {
        Self::Object(members)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Self {
        Self::Int(number.into())
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}
