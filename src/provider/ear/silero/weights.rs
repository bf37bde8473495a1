//! Silero's weights out of its ONNX file: just enough of the format to find tensors by name.

use std::collections::BTreeMap;

/// What the names of the 16 kHz network begin with; the file holds an 8 kHz one as well.
const NETWORK: &str = "If_0_then_branch__Inline_0__";
/// ONNX's number for 32-bit floats.
const FLOAT: u64 = 1;

/// The tensors of the 16 kHz network by name.
pub struct Weights<'a> {
    tensors: BTreeMap<&'a str, Tensor<'a>>,
}

#[derive(Default)]
struct Tensor<'a> {
    shape: Vec<u64>,
    kind: u64,
    bytes: &'a [u8],
}

impl<'a> Weights<'a> {
    /// Finds them. What is no such file simply has none.
    pub fn of(model: &'a [u8]) -> Weights<'a> {
        let mut tensors = BTreeMap::new();
        let graphs = inside(model, 7);
        let attributes = graphs.flat_map(|graph| inside(graph, 1)).flat_map(|node| inside(node, 5));
        let branches = attributes.flat_map(|attribute| inside(attribute, 6));
        for node in branches.flat_map(|branch| inside(branch, 1)) {
            let name = inside(node, 2).next().and_then(|name| std::str::from_utf8(name).ok());
            let Some(name) = name.and_then(|name| name.strip_prefix(NETWORK)) else { continue };
            let constant = inside(node, 5).flat_map(|attribute| inside(attribute, 5)).next();
            if let Some(constant) = constant {
                tensors.insert(name, Tensor::read(constant));
            }
        }
        Weights { tensors }
    }

    /// The numbers of one tensor, which must have this shape.
    pub fn get(&self, name: &str, shape: &[u64]) -> Result<Vec<f32>, String> {
        let tensor = self.tensors.get(name).ok_or_else(|| format!("there is no `{name}` in it"))?;
        let count: u64 = shape.iter().product();
        let fits = tensor.shape == shape && tensor.kind == FLOAT;
        if !fits || tensor.bytes.len() as u64 != count * 4 {
            return Err(format!("`{name}` is not of the shape {shape:?} but {:?}", tensor.shape));
        }
        let (numbers, _) = tensor.bytes.as_chunks();
        Ok(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }
}

impl<'a> Tensor<'a> {
    fn read(message: &'a [u8]) -> Tensor<'a> {
        let mut tensor = Tensor::default();
        for field in Fields(message) {
            match field {
                (1, Value::Number(size)) => tensor.shape.push(size),
                (1, Value::Bytes(mut sizes)) => {
                    tensor.shape.extend(std::iter::from_fn(|| number(&mut sizes)));
                }
                (2, Value::Number(kind)) => tensor.kind = kind,
                (9, Value::Bytes(bytes)) => tensor.bytes = bytes,
                _ => {}
            }
        }
        tensor
    }
}

/// What a message's fields of this number hold, where that is bytes.
fn inside(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    Fields(message).filter_map(move |field| match field {
        (number, Value::Bytes(bytes)) if number == wanted => Some(bytes),
        _ => None,
    })
}

/// The fields of a protocol buffer's message, up to the first that is broken.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = number(&mut self.0)?;
        let length = match key & 7 {
            0 => return Some((key >> 3, Value::Number(number(&mut self.0)?))),
            1 => 8,
            2 => usize::try_from(number(&mut self.0)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((key >> 3, Value::Bytes(bytes)))
    }
}

/// A number of seven bits a byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128);
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn model() -> Vec<u8> {
        let numbers: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|n| n.to_le_bytes()).collect();
        let tensor = [field(1, &[2, 1]), vec![2 << 3, 1], field(9, &numbers)].concat();
        let name = format!("{NETWORK}bias");
        let node = [field(2, name.as_bytes()), field(5, &field(5, &tensor))].concat();
        field(7, &field(1, &field(5, &field(6, &field(1, &node)))))
    }

    #[test]
    fn a_tensor_is_found_by_its_name_and_must_have_its_shape() {
        let model = model();
        let weights = Weights::of(&model);
        assert_eq!(weights.get("bias", &[2, 1]).as_deref(), Ok(&[1.5, -2.0][..]));
        assert!(weights.get("bias", &[2]).is_err_and(|e| e.contains("not of the shape [2]")));
        assert!(weights.get("weight", &[2]).is_err_and(|e| e.contains("no `weight`")));
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_refused_and_harms_nothing() {
        let model = model();
        for length in 0..model.len() {
            assert!(Weights::of(&model[..length]).get("bias", &[2, 1]).is_err(), "{length}");
        }
        assert!(Weights::of(&[0xFF; 64]).get("bias", &[2, 1]).is_err());
    }
}
