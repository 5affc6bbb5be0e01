"""Null tensors compute what host tensors compute, alias as they do, and refuse other devices."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

HALF = torch.bfloat16


def _ops():
    index = torch.tensor([3, 1, 1])
    mask = torch.tensor([True, False, True, True])
    return {
        "linear": lambda x, t: F.linear(x, x),
        "matmul": lambda x, t: x @ x.mT,
        "bmm": lambda x, t: torch.bmm(x[None], x[None]),
        "embedding": lambda x, t: F.embedding(t(index), x),
        "index": lambda x, t: x[t(index)],
        "mask": lambda x, t: x[t(mask)],
        "index_select": lambda x, t: x.index_select(1, t(index)),
        "gather": lambda x, t: x.gather(0, t(index)[None].expand(2, 3)),
        "index_put": lambda x, t: x.clone().index_put_((t(index),), x[:3] * 2),
        "accumulate": lambda x, t: x.clone().index_put_((t(index),), x[:3], accumulate=True),
        "index_copy": lambda x, t: x.clone().index_copy_(0, t(torch.tensor([3, 1])), x[:2]),
        "scatter": lambda x, t: x.clone().scatter_(1, t(index)[None], 7.0),
        "masked_fill": lambda x, t: x.masked_fill(t(mask), -1.0),
        "masked_assign": lambda x, t: _assign(x.clone(), t(mask), 5.0),
        "row_assign": lambda x, t: _assign(x.clone(), 1, 5.0),
        "argmax": lambda x, t: x.argmax(-1),
        "topk": lambda x, t: x.topk(2).values,
        "topk_indices": lambda x, t: x.topk(2)[1],
        "sort": lambda x, t: x.sort(dim=-1, descending=True).indices,
        "softmax": lambda x, t: x.softmax(-1, dtype=torch.float32),
        "cumsum": lambda x, t: x.cumsum(-1),
        "cat": lambda x, t: torch.cat([x, x * 2], dim=1),
        "stack": lambda x, t: torch.stack([x, x + 1]),
        "split": lambda x, t: x.split([1, 3], dim=-1)[1],
        "to": lambda x, t: x.to(torch.float16),
        "double": lambda x, t: x.double(),
        "where": lambda x, t: torch.where(x > 0, x, 0.0),
        "where_one": lambda x, t: torch.where(x > 0)[0],
        "permute": lambda x, t: x.T.contiguous(),
        "reshape": lambda x, t: x.T.reshape(2, 8),
        "repeat": lambda x, t: x.repeat_interleave(2, dim=0),
        "arange": lambda x, t: torch.arange(4, device=x.device) + x,
        "full": lambda x, t: torch.full((2, 2), 3.5, device=x.device),
        "zeros_like": lambda x, t: torch.zeros_like(x),
        "tril": lambda x, t: torch.tril(torch.ones(4, 4, device=x.device)),
        "rsqrt": lambda x, t: torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
        "host_number": lambda x, t: x * torch.tensor(2.0),
        "out": lambda x, t: torch.add(x, x, out=torch.empty(0, dtype=x.dtype, device=x.device)),
        "sdpa": lambda x, t: F.scaled_dot_product_attention(
            x[None, None], x[None, None], x[None, None], is_causal=True
        ),
        "one_hot": lambda x, t: F.one_hot(t(index)),
        "unique": lambda x, t: torch.unique(t(index)),
        "tensor_split": lambda x, t: x.tensor_split(2)[1],
    }


def _assign(x, key, value):
    x[key] = value
    return x


@pytest.mark.parametrize("dtype", [torch.float32, HALF, torch.float16], ids=str)
@pytest.mark.parametrize("op", _ops())
def test_an_op_gives_what_the_host_gives(op, dtype, upload, download, mode):
    run = _ops()[op]
    host = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    with mode:
        expected = run(host, lambda t: t)
        result = run(upload(host), upload)
        assert result.device == torch.device("null:0")
        assert result.dtype == expected.dtype
        # Attention outside inference mode runs in parts here and fused on the host.
        torch.testing.assert_close(download(result), expected)


def test_metadata_is_that_of_the_host_tensor(upload, mode):
    host = torch.arange(24.0).reshape(2, 3, 4)
    with mode:
        for view in (lambda t: t, lambda t: t[:, 1:], lambda t: t.mT, lambda t: t[1, :, ::2]):
            here, there = view(host), view(upload(host))
            assert there.shape == here.shape
            assert there.stride() == here.stride()
            assert there.storage_offset() == here.storage_offset()
            assert there.is_contiguous() == here.is_contiguous()


def test_writing_to_views_is_seen_through_the_base(upload, download, mode):
    with mode:
        base = upload(torch.zeros(4, 4))
        view = base[1:3]
        view[:, 2:].fill_(1)
        view[0].copy_(upload(torch.full((4,), 2.0)))
        base.view(16)[15:].add_(5)
        expected = torch.zeros(4, 4)
        expected[1] = 2
        expected[2, 2:] = 1
        expected[3, 3] = 5
        assert torch.equal(download(base), expected)
        base.zero_()
        assert not download(view).any()


def test_in_place_and_out_ops_return_the_tensor_itself(upload, mode):
    with mode:
        x, y = upload(torch.ones(3)), upload(torch.ones(3))
        assert x.add_(1) is x
        assert torch.mul(x, x, out=y) is y
        values, indices = upload(torch.ones(1)), upload(torch.ones(1, dtype=torch.long))
        result = torch.topk(x, 1, out=(values, indices))
        assert result[0] is values
        assert result[1] is indices


def test_shape_changes_in_place_are_followed(upload, download, mode):
    with mode:
        x = upload(torch.arange(6).reshape(2, 3))
        x.t_()
        assert x.shape == (3, 2)
        x.unsqueeze_(0)
        assert x.shape == (1, 3, 2)
        assert torch.equal(download(x[0]), torch.arange(6).reshape(2, 3).T)


def test_a_list_of_out_tensors_is_followed(upload, download, mode):
    with mode:
        x = upload(torch.ones(3))
        out = [upload(torch.empty(0)), upload(torch.empty(3))]
        torch.ops.aten._foreach_add.Scalar_out([x, x], 1, out=out)
        assert [tuple(tensor.shape) for tensor in out] == [(3,), (3,)]
        assert torch.equal(download(out[0]), torch.full((3,), 2.0))


def test_a_seeded_host_generator_gives_the_hosts_numbers(null, device, download, mode):
    def draw(on):
        generator = null.devices.generator().manual_seed(7)
        noise = torch.empty(5, device=on).exponential_(generator=generator)
        weights = torch.ones(9, device=on)
        return noise, torch.multinomial(weights, 4, generator=generator)

    with mode:
        for there, here in zip(draw(device), draw("cpu"), strict=True):
            assert torch.equal(download(there), here)


def test_modules_live_on_the_device(device, upload, download, mode):
    host = torch.nn.Linear(3, 2)
    with mode:
        there = torch.nn.Linear(3, 2, device=device)
        for target, source in zip(there.parameters(), host.parameters(), strict=True):
            target.data.copy_(upload(source.detach()))
        assert isinstance(there.weight, torch.nn.Parameter)
        x = torch.randn(4, 3)
        torch.testing.assert_close(download(there(upload(x)).detach()), host(x).detach())
        assert there.to(HALF)(upload(x.to(HALF))).dtype == HALF


def test_a_deep_copy_has_memory_of_its_own(device, download):
    module = torch.nn.Linear(2, 2, device=device)
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin.weight.zero_()
    assert isinstance(twin.weight, torch.nn.Parameter)
    assert download(module.weight.detach()).any()


REFUSED = {
    "add": lambda here, there: there + here,
    "reverse add": lambda here, there: here + there,
    "matmul": lambda here, there: there @ here,
    "cat": lambda here, there: torch.cat([there, here]),
    "index with host": lambda here, there: there[here.long()],
    "index host": lambda here, there: here[there.long()],
    "index_select": lambda here, there: there.index_select(0, here[0].long()),
    "embedding": lambda here, there: F.embedding(here.long(), there),
    "assign": lambda here, there: _assign(there, there.long(), here),
    "assign row": lambda here, there: _assign(there, 0, here[0]),
    "assign to host": lambda here, there: _assign(here, 0, there[0]),
    "write to host number": lambda here, there: torch.tensor(1.0).add_(there.sum()),
    "copy in": lambda here, there: there.copy_(here),
    "copy out": lambda here, there: here.copy_(there),
    "to host": lambda here, there: there.to("cpu"),
    "to host and dtype": lambda here, there: there.to(device="cpu", dtype=HALF),
    "to like": lambda here, there: there.to(here),
    "type_as": lambda here, there: there.type_as(here),
    "cpu": lambda here, there: there.cpu(),
    "to device": lambda here, there: here.to(there.device),
    "host type_as": lambda here, there: here.type_as(there),
    "new tensor": lambda here, there: torch.tensor([1, 2], device=there.device),
    "host tensor of": lambda here, there: torch.tensor(there.clone(), device="cpu"),
    "numpy": lambda here, there: there.numpy(),
    "asarray": lambda here, there: there.__array__(),
    "tolist": lambda here, there: there.tolist(),
    "dlpack": lambda here, there: there.__dlpack__(),
    "address": lambda here, there: there.data_ptr(),
    "data": lambda here, there: setattr(there, "data", here),
}


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize("case", REFUSED)
def test_crossing_between_devices_is_refused(case, upload, download, mode):
    with mode:
        here, there = torch.ones(2, 2), upload(torch.ones(2, 2))
        with pytest.raises(RuntimeError, match=r"memory\.copy_to_(host|device)") as caught:
            REFUSED[case](here, there)
        assert "\n" not in str(caught.value)
        assert torch.equal(here, torch.ones(2, 2))
        assert torch.equal(download(there), torch.ones(2, 2))


def test_a_refusal_names_the_op_the_devices_and_the_remedy(upload):
    there = upload(torch.ones(2))
    with pytest.raises(RuntimeError) as caught:
        there + torch.ones(2)
    for part in ("aten.add", "null:0", "cpu", "memory.copy_to_device"):
        assert part in str(caught.value)


def test_there_is_one_device(device):
    with pytest.raises(RuntimeError, match="null:1"):
        torch.empty(2, device="null:1")
    with pytest.raises(RuntimeError, match="null:1"):
        torch.empty(2, device=device).to("null:1")


def test_showing_a_tensor_reads_no_memory(upload, null):
    x = upload(torch.ones(2, 3))
    before = null.counters
    assert "(2, 3)" in repr(x)
    assert null.counters == before
