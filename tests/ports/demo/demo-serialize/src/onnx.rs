//! The perceptron as an ONNX model: two `Gemm` and a `Relu`, weights as raw initialisers.
//!
//! Source of the field numbers and enums: `onnx.proto` of ONNX. IR 8 and opset 17, which
//! belong together and which every runtime of today loads.

use crate::mlp::Mlp;
use crate::protobuf::Message;
use crate::Tensor;

const IR_VERSION: u64 = 8;
const OPSET: u64 = 17;

/// `TensorProto.DataType.FLOAT` and `AttributeProto.AttributeType.INT`.
const FLOAT: u64 = 1;
const INT: u64 = 2;

/// The model: `input` \[N, 4\] to `output` \[N, 2\], both f32, of any number N of rows.
#[must_use]
pub fn export(mlp: &Mlp) -> Vec<u8> {
    let opset = Message::new().text(1, "").int(2, OPSET);
    Message::new()
        .int(1, IR_VERSION)
        .text(2, "parity-demo-port")
        .message(7, &graph(mlp))
        .message(8, &opset)
        .into_bytes()
}

/// `GraphProto`: nodes in the order in which they run.
fn graph(mlp: &Mlp) -> Message {
    let graph = Message::new()
        .message(1, &gemm("fc1", "input", "hidden"))
        .message(1, &node("relu", "Relu", &["hidden"], "rectified"))
        .message(1, &gemm("fc2", "rectified", "output"))
        .text(2, "mlp");
    let weights = mlp.weights().iter().map(initializer);
    let graph = weights.fold(graph, |graph, weight| graph.message(5, &weight));
    graph
        .message(11, &value("input", 4))
        .message(12, &value("output", 2))
}

/// `y = x · weightᵀ + bias`: torch keeps a row of the weight for each output.
fn gemm(layer: &str, input: &str, output: &str) -> Message {
    let (weight, bias) = (format!("{layer}.weight"), format!("{layer}.bias"));
    let trans_b = Message::new().text(1, "transB").int(3, 1).int(20, INT);
    node(layer, "Gemm", &[input, &weight, &bias], output).message(5, &trans_b)
}

/// `NodeProto`.
fn node(name: &str, op: &str, inputs: &[&str], output: &str) -> Message {
    let node = inputs
        .iter()
        .fold(Message::new(), |node, input| node.text(1, input));
    node.text(2, output).text(3, name).text(4, op)
}

/// `TensorProto`: the elements are raw, which ONNX defines as little-endian.
fn initializer(tensor: &Tensor) -> Message {
    let dims = tensor.shape.iter();
    let proto = dims.fold(Message::new(), |proto, &dim| proto.int(1, dim as u64));
    let raw: Vec<u8> = tensor
        .data
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    proto.int(2, FLOAT).text(8, &tensor.name).bytes(9, &raw)
}

/// `ValueInfoProto` of an f32 tensor whose rows have a name in place of a number.
fn value(name: &str, columns: u64) -> Message {
    let shape = Message::new()
        .message(1, &Message::new().text(2, "N"))
        .message(1, &Message::new().int(1, columns));
    let tensor = Message::new().int(1, FLOAT).message(2, &shape);
    let kind = Message::new().message(1, &tensor);
    Message::new().text(1, name).message(2, &kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(model: &[u8], part: &[u8]) -> bool {
        model.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn the_model_holds_what_a_runtime_looks_for() {
        let model = export(&Mlp::parse(&crate::mlp::tests::example()).unwrap());
        assert_eq!(model[..2], [0x08, 8]);
        // opset_import: an empty domain, version 17
        assert!(model.ends_with(&[0x42, 4, 0x0a, 0, 0x10, 17]));
        // transB = 1, typed as an integer
        assert!(holds(&model, b"\x0a\x06transB\x18\x01\xa0\x01\x02"));
        // dims [8, 4], float, the name, 128 raw bytes
        assert!(holds(
            &model,
            b"\x08\x08\x08\x04\x10\x01\x42\x0afc1.weight\x4a\x80\x01"
        ));
        // -3/4 and -1/2, the first two weights
        assert!(holds(&model, &[0, 0, 0x40, 0xbf, 0, 0, 0, 0xbf]));
    }
}
