"""The names that MONAI Label imports; its pathology apps call them, bundles do not."""


def make_grid(*args: object, **kwargs: object) -> None:
    raise NotImplementedError("this is a stand-in for torchvision")


save_image = make_grid
