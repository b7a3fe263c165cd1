import pytest
import torch
import torchvision

from hypo import HypoNet


@pytest.mark.parametrize(
    "backbone", ["resnet18", "resnet34", "resnet50", "mobilenet_v2", "squeezenet1_1", "regnet_y_400mf"]
)
def test_embeddings_are_unit_vectors(backbone):
    z = HypoNet(backbone, dim=24)(torch.randn(2, 3, 64, 64))
    assert z.shape == (2, 24)
    torch.testing.assert_close(z.norm(dim=1), torch.ones(2))


def backbones() -> list:
    """Every classifier but the regnets, which compute with their weights when built; in short one of each file."""
    names = [n for n in torchvision.models.list_models(module=torchvision.models) if not n.startswith("regnet")]
    first = {torchvision.models.get_model_builder(name).__module__: name for name in reversed(names)}
    return [name if name in first.values() else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("backbone", backbones())
def test_every_torchvision_classifier_is_a_backbone(backbone):
    with torch.device("meta"):
        size = 299 if backbone == "inception_v3" else 224
        assert HypoNet(backbone, dim=24).train()(torch.empty(2, 3, size, size)).shape == (2, 24)


def test_head_has_one_hidden_layer_of_the_feature_size():
    model = HypoNet("resnet50", dim=512)
    assert [(m.in_features, m.out_features) for m in model.head if isinstance(m, torch.nn.Linear)] == [
        (2048, 2048),
        (2048, 512),
    ]


def test_cifar_stem_keeps_the_resolution_and_width_scales_the_channels():
    model = HypoNet("resnet18", dim=16, stem="cifar", width=0.25)
    stem = torch.nn.Sequential(model.backbone.conv1, model.backbone.bn1, model.backbone.relu, model.backbone.maxpool)
    assert stem(torch.randn(2, 3, 32, 32)).shape == (2, 16, 32, 32)
    assert model.backbone.conv1.kernel_size == (3, 3)
    assert model.feature_dim == 128
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 16)


@pytest.mark.parametrize("backbone, channels", [("resnet34", 256), ("resnet50", 1024), ("mobilenet_v2", 1280)])
def test_width_for_other_backbones(backbone, channels):
    narrow, wide = HypoNet(backbone, dim=8, width=0.5), HypoNet(backbone, dim=8)
    assert narrow.feature_dim == channels
    assert sum(p.numel() for p in narrow.backbone.parameters()) < sum(p.numel() for p in wide.backbone.parameters()) / 2


def test_full_width_through_the_slim_resnet_is_torchvisions():
    from hypo.model import RESNETS, _SlimResNet

    for name, (block, layers) in RESNETS.items():
        with torch.device("meta"):
            slim, plain = _SlimResNet(block, layers, width=1.0), torchvision.models.get_model(name)
        assert {k: v.shape for k, v in slim.state_dict().items()} == {k: v.shape for k, v in plain.state_dict().items()}


def test_a_zero_vector_does_not_become_nan():
    model = HypoNet("resnet18", dim=8, stem="cifar", width=0.125)
    torch.nn.init.zeros_(model.head[2].weight)
    torch.nn.init.zeros_(model.head[2].bias)
    z = model(torch.randn(2, 3, 32, 32))
    torch.testing.assert_close(z.norm(dim=1), torch.ones(2))
    z.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_weights_from_a_file(tmp_path):
    published = torchvision.models.resnet18()
    torch.save(published.state_dict(), tmp_path / "resnet18.pth")
    model = HypoNet("resnet18", dim=8, weights=tmp_path / "resnet18.pth").eval()
    published.fc = torch.nn.Identity()
    images = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(model.backbone(images), published.eval()(images))
    assert HypoNet("resnet18", dim=8, weights=str(tmp_path / "resnet18.pth")).feature_dim == 512


class Payload:
    def __reduce__(self):
        return (print, ("code ran while loading",))


def test_weights_are_loaded_without_running_code(tmp_path, capsys):
    torch.save(Payload(), tmp_path / "evil.pth")
    with pytest.raises(ValueError, match=r"evil.pth is no state-dict file that torch.load can read safely"):
        HypoNet("resnet18", weights=tmp_path / "evil.pth")
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, says",
    [
        ({"backbone": "resnet81"}, "unknown backbone 'resnet81': did you mean resnet18"),
        ({"stem": "ciffar"}, "did you mean cifar"),
        ({"backbone": "mobilenet_v2", "stem": "cifar"}, "stem='cifar' is for ResNets"),
        ({"backbone": "vit_b_16", "width": 0.5}, "width is for resnet18"),
        ({"width": 0}, "width must be above 0"),
        ({"dim": 1}, "dim must be at least 2"),
        ({"weights": "missing.pth"}, "no weights file missing.pth"),
        ({"weights": "IMAGENET1K_V3"}, "did you mean IMAGENET1K_V1"),
    ],
)
def test_bad_options_get_one_sentence(options, says):
    with pytest.raises(ValueError, match=says):
        HypoNet(**{"backbone": "resnet18", "dim": 8, **options})


def test_weights_that_do_not_fit_or_are_damaged(tmp_path):
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "r18.pth")
    with pytest.raises(ValueError, match="does not fit this backbone"):
        HypoNet("resnet34", weights=tmp_path / "r18.pth")
    with pytest.raises(ValueError, match=r"conv1\.weight; check the backbone's name, stem and width"):
        HypoNet("resnet18", stem="cifar", weights=tmp_path / "r18.pth")
    (tmp_path / "cut.pth").write_bytes((tmp_path / "r18.pth").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cut\.pth is no state-dict file"):
        HypoNet("resnet18", weights=tmp_path / "cut.pth")


def test_weights_that_cannot_be_fetched_say_where_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def refuse(*_args, **_kwargs):
        raise OSError("no network")

    monkeypatch.setattr("torch.hub.download_url_to_file", refuse)
    with pytest.raises(
        ValueError, match=r"could not be fetched \(no network\); download https://.*pth and pass its path"
    ):
        HypoNet("resnet18", weights="IMAGENET1K_V1")


PUBLISHED = "hub/checkpoints/resnet18-f37072fd.pth"


def kept(folder, content: bytes) -> None:
    """Put a file where torch keeps the weights of ResNet-18 that it fetched."""
    (folder / PUBLISHED).parent.mkdir(parents=True)
    (folder / PUBLISHED).write_bytes(content)


@pytest.mark.parametrize("kind", ["cut", "empty", "garbage", "another state dict", "code"])
def test_published_weights_that_are_damaged_on_disk_are_refused(monkeypatch, tmp_path, capsys, kind):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    torch.save(torchvision.models.resnet18().state_dict() if kind != "code" else Payload(), tmp_path / "file.pth")
    whole = (tmp_path / "file.pth").read_bytes()
    kept(tmp_path, {"cut": whole[:1000], "empty": b"", "garbage": b"weights"}.get(kind, whole))
    with pytest.raises(ValueError, match=r"resnet18-f37072fd.pth is damaged, or not the published file of that name"):
        HypoNet("resnet18", weights="IMAGENET1K_V1")
    assert "code ran" not in capsys.readouterr().out


def test_published_weights_are_loaded_without_running_code(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    torch.save(Payload(), tmp_path / "file.pth")
    kept(tmp_path, (tmp_path / "file.pth").read_bytes())
    monkeypatch.setattr("hypo.model.refuse_damaged", lambda _path: None)  # as if its digest were right
    with pytest.raises(ValueError, match=r"no state-dict file that torch.load can read safely"):
        HypoNet("resnet18", weights="IMAGENET1K_V1")
    assert "code ran" not in capsys.readouterr().out
