# Writes the PyTorch files of this folder: the same state dict in three forms. Run with PyTorch 1.13: python3 write.py
import collections
import torch

base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8
state = collections.OrderedDict()
state["f32"] = base
state["transposed"] = base.t()
state["row.2"] = base[2]
state["column.3"] = base[:, 3]
state["parameter"] = torch.nn.Parameter(torch.tensor([1.5, -2.0]))
state["f16"] = torch.tensor([[0.5, -1.0, 65504.0]], dtype=torch.float16)
state["bf16"] = torch.tensor([0.5, 3.0e38], dtype=torch.bfloat16)
state["f64"] = torch.tensor([0.1, 0.25], dtype=torch.float64)
state["i64"] = torch.tensor([[7, -7]])
state["mask"] = torch.ones(2, 3, dtype=torch.bool).tril().view(1, 1, 2, 3)
state["scalar"] = torch.tensor(-1e9)
state["empty"] = torch.zeros(0, 3)
state["expanded"] = torch.tensor([4.0]).expand(3, 2)
state._metadata = collections.OrderedDict([("", {"version": 1}), ("layer", {"version": None})])

torch.save(state, "zip2.bin")
torch.save(state, "zip4.bin", pickle_protocol=4)
torch.save(state, "old.bin", _use_new_zipfile_serialization=False)
