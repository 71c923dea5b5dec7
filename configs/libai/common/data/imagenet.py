"""Pictures in root/train and root/val, with a folder for each class."""
from flowvision import transforms
from flowvision.data.auto_augment import rand_augment_transform
from flowvision.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from flowvision.data.random_erasing import RandomErasing
from flowvision.transforms import InterpolationMode
from libai.config import LazyCall
from libai.data.build import build_image_test_loader, build_image_train_loader
from libai.data.datasets import ImageNetDataset
from omegaconf import OmegaConf

train_aug = LazyCall(transforms.Compose)(
    transforms=[
        LazyCall(transforms.RandomResizedCrop)(
            size=224,
            scale=(0.08, 1.0),
            ratio=(3.0 / 4.0, 4.0 / 3.0),
            interpolation=InterpolationMode.BICUBIC,
        ),
        LazyCall(transforms.RandomHorizontalFlip)(p=0.5),
        LazyCall(rand_augment_transform)(config_str="rand-m9-mstd0.5-inc1"),
        LazyCall(transforms.ToTensor)(),
        LazyCall(transforms.Normalize)(mean=IMAGENET_DEFAULT_MEAN, std=IMAGENET_DEFAULT_STD),
        LazyCall(RandomErasing)(probability=0.25, mode="pixel", max_count=1),
    ]
)

test_aug = LazyCall(transforms.Compose)(
    transforms=[
        LazyCall(transforms.Resize)(size=256, interpolation=InterpolationMode.BICUBIC),
        LazyCall(transforms.CenterCrop)(size=224),
        LazyCall(transforms.ToTensor)(),
        LazyCall(transforms.Normalize)(mean=IMAGENET_DEFAULT_MEAN, std=IMAGENET_DEFAULT_STD),
    ]
)

dataloader = OmegaConf.create()
dataloader.train = LazyCall(build_image_train_loader)(
    dataset=[LazyCall(ImageNetDataset)(root="./dataset", train=True, transform=train_aug)],
    num_workers=4,
    mixup_func=None,
)
dataloader.test = [
    LazyCall(build_image_test_loader)(
        dataset=LazyCall(ImageNetDataset)(root="./dataset", train=False, transform=test_aug),
        num_workers=4,
    )
]
