from .vit_tiny_patch16_224 import model

model.cfg.patch_size = 32
model.cfg.embed_dim = 384
model.cfg.num_heads = 6
